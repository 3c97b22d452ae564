#pragma once
// True bytes between ranks, summed over all tensors without listing their transfers.
//
// What a target shard needs of a layout's pieces (planner/readers.hpp) is the same for every tensor of the layout; only
// which holder of a piece is read differs. So each layout is walked once, and the tensors add their bytes by piece and
// reader.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "reshard/planner/binding.hpp"
#include "reshard/planner/work.hpp"

namespace reshard::pipeline {

/// Elements of one piece of the source.
struct PieceNeed {
  std::size_t piece = 0;  ///< numbered as choose_sources does
  planner::Index elements = 0;

  friend bool operator==(const PieceNeed&, const PieceNeed&) = default;
};

/// Equal target shards, and what each needs of the source.
struct ShardNeeds {
  std::vector<planner::Index> ranks;  ///< ascending
  std::vector<PieceNeed> needs;
  std::int64_t transfers = 0;  ///< into one of the ranks, as list_transfers counts them

  friend bool operator==(const ShardNeeds&, const ShardNeeds&) = default;
};

/// In order of the lowest rank. Absent ranks are in none. Cost O(ranks + needs).
std::vector<ShardNeeds> shard_needs(const planner::LayoutPair& pair);

/// Bytes by (source rank, target rank), and the number of all transfers.
struct Traffic {
  std::map<std::pair<planner::Index, planner::Index>, std::int64_t> bytes;
  std::int64_t transfers = 0;
};

/// `work` is parallel to bound.tensors. Cost O(needs of all layouts x holders read + tensors x pieces).
Traffic traffic_of(const planner::BoundPlan& bound, const std::vector<planner::WorkTensor>& work);

}  // namespace reshard::pipeline
