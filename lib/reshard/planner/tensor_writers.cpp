#include "reshard/planner/tensor_writers.hpp"

#include <algorithm>

#include "reshard/base/error.hpp"

namespace reshard::planner {
namespace {

void sort_and_unite(std::vector<ProcessRank>& processes) {
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
}

}  // namespace

TensorWriters::TensorWriters(const WorkTensor& work, std::size_t number, const TargetMap& targets)
    : targets_(targets), element_bytes_(work.target_element_bytes) {
  for (const TargetPart& part : work.tiling->shards()) {
    Shard& shard = shards_[part.ranks.data()];
    for (const std::size_t file : targets.files_of(number, part.ranks)) {
      const std::int64_t begin = targets.offset(number, file);
      const std::vector<WriteRegion> regions = targets.regions(file, begin, begin + part.elements * element_bytes_);
      if (regions.size() > 1) {
        shard.shared.push_back({file, begin});
      } else if (!regions.empty()) {
        shard.settled.push_back(regions.front().process);
      }
    }
    sort_and_unite(shard.settled);
    one_for_each_file_ = one_for_each_file_ && shard.shared.empty();
  }
}

std::vector<ProcessRank> TensorWriters::of(const TargetPart& part) const {
  const auto found = shards_.find(part.ranks.data());
  if (found == shards_.end()) internal_error("a target part of another tiling");
  std::vector<ProcessRank> out = found->second.settled;
  for (const Place& place : found->second.shared) {
    const std::int64_t begin = place.begin + part.first * element_bytes_;
    for (const WriteRegion& region : targets_.regions(place.file, begin, begin + part.elements * element_bytes_))
      out.push_back(region.process);
  }
  sort_and_unite(out);
  return out;
}

std::vector<std::vector<ProcessRank>> TensorWriters::of(const Tile& tile) const {
  std::vector<std::vector<ProcessRank>> out;
  for (const TargetPart& part : tile.targets) out.push_back(of(part));
  return out;
}

std::vector<std::vector<ProcessRank>> TensorWriters::settled() const {
  std::vector<std::vector<ProcessRank>> out;
  for (const auto& [ranks, shard] : shards_) out.push_back(shard.settled);
  return out;
}

std::vector<TensorWriters> tensor_writers(std::span<const WorkTensor> work, const TargetMap& targets) {
  std::vector<TensorWriters> out;
  for (std::size_t t = 0; t < work.size(); ++t) out.emplace_back(work[t], t, targets);
  return out;
}

}  // namespace reshard::planner
