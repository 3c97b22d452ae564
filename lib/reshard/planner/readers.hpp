#pragma once
// Which source rank's copy is read. A function of plan and catalog alone, so that every process computes the same
// answer and the output does not depend on their number: pieces with the fewest holders first, then most bytes, then
// id; each goes to its holder with the fewest bytes so far, the lowest rank on ties (Megatron-LM's exchange_utils,
// greedy).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reshard/layout/tensor_layout.hpp"
#include "reshard/planner/held.hpp"

namespace reshard::planner {

struct Piece {
  std::int64_t bytes = 0;
  std::vector<Index> holders;  ///< ranks, ascending, never empty
};

/// The reader of each piece; ids are positions in `pieces`.
std::vector<Index> assign_readers(std::span<const Piece> pieces);

/// One tensor for choose_sources.
struct TensorToRead {
  const layout::TensorLayout* source = nullptr;
  std::int64_t element_bytes = 1;
};

/// For every tensor the source rank each of its pieces is read from. The pieces of a tensor are the products of the
/// held_ranges of its dims, numbered row-major (one piece for a scalar). Pieces with no true element do not occur. Only
/// present ranks hold anything. Errors: kCoverage where a product has no holder among the present ranks.
std::vector<std::vector<Index>> choose_sources(std::span<const TensorToRead> tensors);

}  // namespace reshard::planner
