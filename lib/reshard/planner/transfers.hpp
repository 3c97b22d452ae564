#pragma once
// The transfers of one tensor, and the proof that they write every element of every target shard exactly once.

#include <cstdint>
#include <span>
#include <vector>

#include "reshard/layout/tensor_layout.hpp"
#include "reshard/planner/cover.hpp"
#include "reshard/planner/held.hpp"

namespace reshard::planner {

/// A box of the tensor that moves from one source shard to one target shard. Boxes are in stored coordinates of their
/// shard; both have the same extents.
struct Transfer {
  Index source_rank = 0;
  Index target_rank = 0;
  Box source_box;
  Box target_box;

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// By target rank, then target box, row-major. Boxes are maximal in tensor, source shard and target shard, and cut only
/// where the set of source ranks that hold the elements changes. `sources`: the source rank of every piece, as
/// choose_sources numbers them. A scalar moves as one box without dims; a shard without true elements has no transfer.
std::vector<Transfer> list_transfers(const layout::TensorLayout& source, const layout::TensorLayout& target,
                                     std::span<const Index> sources);

/// Proves for every distinct target shard that the transfers write each of its true elements exactly once: disjoint and
/// of the right volume. Errors: kCoverage with counts and the first hole.
void prove_coverage(const layout::TensorLayout& source, const layout::TensorLayout& target,
                    std::span<const Index> sources);

}  // namespace reshard::planner
