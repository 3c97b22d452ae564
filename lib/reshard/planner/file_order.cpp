#include "reshard/planner/file_order.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/planner/target_map.hpp"

namespace reshard::planner {
namespace {

/// Bytes of equal shards by the files, ascending, that have them: two or more but not all.
using CommonShards = std::map<std::vector<std::size_t>, std::int64_t>;

/// Bytes of one element, summed over the tensors of each layout.
std::vector<std::int64_t> element_bytes(const BoundPlan& bound) {
  std::vector<std::int64_t> out(bound.layouts.size(), 0);
  for (const BoundTensor& tensor : bound.tensors) out[tensor.layout] += size_bytes(tensor.target_dtype);
  return out;
}

void add_common_shards(const layout::TensorLayout& layout, std::int64_t element_bytes,
                       std::span<const std::size_t> file_of_rank, std::size_t files, CommonShards& out) {
  std::map<std::vector<std::int32_t>, std::vector<std::size_t>> files_of_parts;
  std::vector<std::int32_t> parts(layout.dims.size());
  for (Index rank = 0; rank < layout.ranks; ++rank) {
    if (!layout.is_present(rank)) continue;
    for (std::size_t d = 0; d < parts.size(); ++d) parts[d] = layout.dims[d].part_of(rank);
    files_of_parts[parts].push_back(file_of_rank[static_cast<std::size_t>(rank)]);
  }
  for (auto& [numbers, of_parts] : files_of_parts) {
    std::sort(of_parts.begin(), of_parts.end());
    of_parts.erase(std::unique(of_parts.begin(), of_parts.end()), of_parts.end());
    if (of_parts.size() < 2 || of_parts.size() == files) continue;  // all files have it: none is nearer than others
    std::int64_t bytes = element_bytes;
    for (std::size_t d = 0; d < numbers.size(); ++d)
      bytes = checked_mul(bytes, layout.dims[d].parts[static_cast<std::size_t>(numbers[d])].true_length());
    if (bytes == 0) continue;
    std::int64_t& sum = out[std::move(of_parts)];
    sum = checked_add(sum, bytes);
  }
}

/// Files that wait for their place, by what they have in common with the process that is being filled.
class Candidates {
 public:
  explicit Candidates(std::size_t files) : common_(files, 0), waits_(files, true) {}

  void add(std::size_t file, std::int64_t bytes) {
    if (!waits_[file]) return;
    if (common_[file] > 0) near_.erase({-common_[file], file});
    common_[file] = checked_add(common_[file], bytes);
    near_.insert({-common_[file], file});
  }

  std::size_t take() {
    while (first_ < waits_.size() && !waits_[first_]) ++first_;
    const std::size_t file = near_.empty() ? first_ : near_.begin()->second;
    if (!near_.empty()) near_.erase(near_.begin());
    waits_[file] = false;
    return file;
  }

  void forget_common() {
    for (const auto& [bytes, file] : near_) common_[file] = 0;
    near_.clear();
  }

 private:
  std::vector<std::int64_t> common_;
  std::vector<bool> waits_;
  std::set<std::pair<std::int64_t, std::size_t>> near_;  // bytes in common, negative; file
  std::size_t first_ = 0;
};

}  // namespace

std::vector<std::size_t> file_order(const BoundPlan& bound, std::span<const std::size_t> file_of_rank,
                                    std::span<const std::int64_t> file_bytes, int processes) {
  const std::size_t files = file_bytes.size();
  std::vector<std::size_t> out(files);
  std::iota(out.begin(), out.end(), std::size_t{0});
  if (processes == 1 || files < 3) return out;

  CommonShards common;
  const std::vector<std::int64_t> bytes_of_layout = element_bytes(bound);
  for (std::size_t l = 0; l < bound.layouts.size(); ++l)
    if (bytes_of_layout[l] > 0)
      add_common_shards(bound.layouts[l].target, bytes_of_layout[l], file_of_rank, files, common);
  if (common.empty()) return out;
  std::vector<const CommonShards::value_type*> shards;
  for (const CommonShards::value_type& shard : common) shards.push_back(&shard);
  std::vector<std::vector<std::size_t>> shards_of_file(files);
  for (std::size_t s = 0; s < shards.size(); ++s)
    for (const std::size_t file : shards[s]->first) shards_of_file[file].push_back(s);

  const std::int64_t total = std::accumulate(file_bytes.begin(), file_bytes.end(), std::int64_t{0});
  Candidates candidates(files);
  std::vector<int> filled_with(shards.size(), -1);  // the last process that has the shard
  std::int64_t placed = 0;
  int process = 0;
  for (std::size_t& next : out) {
    if (placed >= share_end(total, process, processes)) {
      while (process + 1 < processes && placed >= share_end(total, process, processes)) ++process;
      candidates.forget_common();
    }
    next = candidates.take();
    placed += file_bytes[next];
    for (const std::size_t s : shards_of_file[next]) {
      if (std::exchange(filled_with[s], process) == process) continue;
      for (const std::size_t file : shards[s]->first) candidates.add(file, shards[s]->second);
    }
  }
  return out;
}

}  // namespace reshard::planner
