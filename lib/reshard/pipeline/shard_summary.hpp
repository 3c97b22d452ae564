#pragma once
// How one side cuts a tensor, for a drawing: the distinct shards, and who holds each.

#include <vector>

#include "reshard/layout/tensor_layout.hpp"
#include "reshard/planner/cover.hpp"

namespace reshard::pipeline {

/// A shard, and the ranks that store it.
struct ShardSummary {
  std::vector<std::vector<layout::Run>> dims;  ///< by dim: the tensor's elements in it, in stored order
  Shape stored_shape;                          ///< padding included
  std::vector<layout::Index> ranks;            ///< ascending

  friend bool operator==(const ShardSummary&, const ShardSummary&) = default;
};

/// In order of the lowest rank. Cost O(ranks x dims x log shards + runs).
std::vector<ShardSummary> shards_of(const layout::TensorLayout& layout);

/// A box of stored coordinates as the elements of the tensor that lie there. The box holds no padding and lies in one
/// run of every dim, as boxes of transfers do.
planner::Box global_box(const ShardSummary& shard, const planner::Box& stored);

}  // namespace reshard::pipeline
