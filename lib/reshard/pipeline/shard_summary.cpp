#include "reshard/pipeline/shard_summary.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace reshard::pipeline {

using layout::Index;
using layout::Run;

std::vector<ShardSummary> shards_of(const layout::TensorLayout& layout) {
  std::vector<ShardSummary> out;
  std::map<std::vector<std::int32_t>, std::size_t> known;  // by the part of every dim
  for (Index rank = 0; rank < layout.ranks; ++rank) {
    if (!layout.is_present(rank)) continue;
    std::vector<std::int32_t> parts;
    for (const layout::DimLayout& dim : layout.dims) parts.push_back(dim.part_of(rank));
    const auto [entry, added] = known.try_emplace(std::move(parts), out.size());
    if (added) {
      ShardSummary shard;
      for (std::size_t d = 0; d < layout.dims.size(); ++d)
        shard.dims.push_back(layout.dims[d].parts[static_cast<std::size_t>(entry->first[d])].runs);
      shard.stored_shape = layout.stored_shape(rank);
      out.push_back(std::move(shard));
    }
    out[entry->second].ranks.push_back(rank);
  }
  return out;
}

planner::Box global_box(const ShardSummary& shard, const planner::Box& stored) {
  planner::Box out;
  for (std::size_t d = 0; d < stored.size(); ++d) {
    const std::vector<Run>& runs = shard.dims[d];
    const auto behind = std::upper_bound(runs.begin(), runs.end(), stored[d].begin,
                                         [](Index position, const Run& run) { return position < run.stored; });
    const Run& run = *std::prev(behind);
    const Index shift = run.global - run.stored;
    out.push_back({stored[d].begin + shift, stored[d].end + shift});
  }
  return out;
}

}  // namespace reshard::pipeline
