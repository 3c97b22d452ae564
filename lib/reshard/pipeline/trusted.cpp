#include "reshard/pipeline/trusted.hpp"

#include <algorithm>
#include <tuple>

#include "reshard/base/crc64.hpp"

namespace reshard::pipeline {

void Trusted::trust(std::vector<bool> kept, std::vector<Extent> extents) {
  kept_ = std::move(kept);
  extents_ = std::move(extents);
  skipped_ = std::vector<std::atomic<std::uint64_t>>(extents_.size());
  for (const Extent& extent : extents_) bytes_ += extent.end - extent.begin;
}

std::size_t Trusted::find(std::size_t file, std::int64_t position) const {
  const auto it = std::partition_point(extents_.begin(), extents_.end(), [&](const Extent& extent) {
    return std::tie(extent.file, extent.end) <= std::tie(file, position);
  });
  return it != extents_.end() && it->file == file ? static_cast<std::size_t>(it - extents_.begin()) : size();
}

void Trusted::skip(std::size_t number, std::int64_t end, std::uint64_t reg) {
  skipped_[number].fetch_xor(crc64::shift(reg, extents_[number].end - end), std::memory_order_relaxed);
}

void Trusted::cover(std::size_t file, std::int64_t begin, std::int64_t end) {
  const std::lock_guard lock(mutex_);
  covered_.add({file, begin, end, 0});
}

std::vector<std::size_t> Trusted::changed(exchange::Communicator& communicator) const {
  std::vector<std::uint64_t> sums;
  for (const std::atomic<std::uint64_t>& sum : skipped_) sums.push_back(sum.load());
  communicator.all_xor(sums);
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i] != extents_[i].reg) out.push_back(i);
  return out;
}

}  // namespace reshard::pipeline
