#include "reshard/pipeline/extents.hpp"

#include <algorithm>
#include <iterator>

#include "reshard/base/crc64.hpp"

namespace reshard::pipeline {

bool Extents::add(const Extent& extent) {
  Extent joined = extent;
  auto after = extents_.lower_bound({extent.file, extent.begin});
  const bool has_after = after != extents_.end() && after->first.first == extent.file;
  if (has_after && after->first.second < extent.end) return false;
  const auto before = after == extents_.begin() ? extents_.end() : std::prev(after);
  const bool has_before = before != extents_.end() && before->first.first == extent.file;
  if (has_before && before->second.end > extent.begin) return false;

  if (has_after && after->first.second == extent.end && extent.end % kCutBytes != 0) {
    joined.reg = crc64::shift(joined.reg, after->second.end - joined.end) ^ after->second.reg;
    joined.end = after->second.end;
    after = extents_.erase(after);
  }
  bytes_ += extent.end - extent.begin;
  if (has_before && before->second.end == extent.begin && extent.begin % kCutBytes != 0) {
    before->second = {joined.end, crc64::shift(before->second.reg, joined.end - joined.begin) ^ joined.reg};
  } else {
    extents_.emplace_hint(after, std::pair(joined.file, joined.begin), Rest{joined.end, joined.reg});
  }
  return true;
}

std::vector<Extent> Extents::all() const {
  std::vector<Extent> out;
  out.reserve(extents_.size());
  for (const auto& [place, rest] : extents_) out.push_back({place.first, place.second, rest.end, rest.reg});
  return out;
}

std::vector<std::pair<std::int64_t, std::int64_t>> Extents::gaps(std::size_t file, std::int64_t begin,
                                                                 std::int64_t end) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  auto it = extents_.lower_bound({file, begin});
  if (it != extents_.begin() && std::prev(it)->first.first == file) begin = std::max(begin, std::prev(it)->second.end);
  for (; begin < end; ++it) {
    const bool is_there = it != extents_.end() && it->first.first == file && it->first.second < end;
    const std::int64_t stop = is_there ? it->first.second : end;
    if (begin < stop) out.emplace_back(begin, stop);
    if (!is_there) break;
    begin = it->second.end;
  }
  return out;
}

}  // namespace reshard::pipeline
