#include "reshard/planner/target_map.hpp"

#include <algorithm>
#include <utility>

#include "reshard/base/checked.hpp"

namespace reshard::planner {
namespace {

__extension__ using Wide = __int128;  // holds bytes times processes

/// The process whose share of the line of all bytes holds `position`.
ProcessRank share_of(std::int64_t position, std::int64_t total, int processes) {
  const auto process = static_cast<std::int64_t>(Wide{position} * processes / std::max<std::int64_t>(total, 1));
  return static_cast<ProcessRank>(std::min<std::int64_t>(process, processes - 1));
}

}  // namespace

std::int64_t share_end(std::int64_t total, ProcessRank process, int processes) {
  return static_cast<std::int64_t>(Wide{total} * (process + 1) / processes);
}

TargetMap::TargetMap(std::vector<std::size_t> file_of_rank, std::vector<std::size_t> part_of_tensor,
                     std::vector<std::int64_t> file_bytes, std::vector<std::size_t> file_class,
                     std::vector<std::vector<TensorOffset>> offsets, std::span<const std::size_t> order, int processes)
    : file_of_rank_(std::move(file_of_rank)),
      part_of_tensor_(std::move(part_of_tensor)),
      file_bytes_(std::move(file_bytes)),
      file_class_(std::move(file_class)),
      offsets_(std::move(offsets)),
      regions_(file_bytes_.size()) {
  std::int64_t total = 0;
  for (const std::int64_t bytes : file_bytes_) total = checked_add(total, bytes);
  std::int64_t before = 0;
  for (const std::size_t f : order) {
    const std::int64_t bytes = file_bytes_[f];
    std::int64_t begin = 0;
    while (begin < bytes) {
      // The middle of the first block decides whose it is; the region runs on to the block nearest to the end of that
      // share.
      const ProcessRank process = share_of(before + std::min(begin + kRegionBytes / 2, bytes - 1), total, processes);
      std::int64_t end = bytes;
      if (process + 1 < processes) {
        const std::int64_t blocks = (share_end(total, process, processes) - before + kRegionBytes / 2) / kRegionBytes;
        end = std::clamp(blocks * kRegionBytes, std::min(begin + kRegionBytes, bytes), bytes);
      }
      regions_[f].push_back({f, begin, end, process});
      begin = end;
    }
    before += bytes;
  }
}

std::size_t TargetMap::file(std::size_t tensor, Index rank) const {
  const std::size_t part = part_of_tensor_.empty() ? 0 : part_of_tensor_[tensor];
  return file_of_rank_[static_cast<std::size_t>(rank)] + part;
}

std::vector<std::size_t> TargetMap::files_of(std::size_t tensor, std::span<const Index> ranks) const {
  std::vector<std::size_t> out;
  for (const Index rank : ranks) out.push_back(file(tensor, rank));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::int64_t TargetMap::offset(std::size_t tensor, std::size_t file) const {
  const std::vector<TensorOffset>& all = offsets_[file_class_[file]];
  return std::partition_point(all.begin(), all.end(), [&](const TensorOffset& o) { return o.tensor < tensor; })->begin;
}

std::vector<WriteRegion> TargetMap::regions(std::size_t file, std::int64_t begin, std::int64_t end) const {
  const std::vector<WriteRegion>& all = regions_[file];
  auto it = std::partition_point(all.begin(), all.end(), [&](const WriteRegion& r) { return r.end <= begin; });
  std::vector<WriteRegion> out;
  for (; begin < end && it != all.end() && it->begin < end; ++it)
    out.push_back({file, std::max(begin, it->begin), std::min(end, it->end), it->process});
  return out;
}

std::vector<WriteRegion> TargetMap::regions_of(ProcessRank process) const {
  std::vector<WriteRegion> out;
  for (const std::vector<WriteRegion>& file : regions_)
    for (const WriteRegion& region : file)
      if (region.process == process) out.push_back(region);
  return out;
}

}  // namespace reshard::planner
