#include "reshard/layout/blocks.hpp"

#include <algorithm>
#include <cstddef>

#include "reshard/base/checked.hpp"
#include "reshard/layout/line.hpp"

namespace reshard::layout {

BlockNumbering::BlockNumbering(Index length, Index divisor, std::span<const Index> segments)
    : divisor_(divisor), starts_{0}, first_blocks_{0} {
  const Index whole[] = {length};
  for (const Index size : segments.empty() ? std::span<const Index>(whole) : segments) {
    first_blocks_.push_back(checked_add(first_blocks_.back(), ceil_div(size, divisor)));
    starts_.push_back(checked_add(starts_.back(), size));
  }
}

std::size_t BlockNumbering::segment_of(Index element) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end() - 1, element);
  return static_cast<std::size_t>(after - starts_.begin()) - 1;
}

Index BlockNumbering::block_of(Index element) const {
  const std::size_t segment = segment_of(element);
  return first_blocks_[segment] + (element - starts_[segment]) / divisor_;
}

std::optional<Index> BlockNumbering::split_at(const DimShard& elements) const {
  for (const Run& run : elements.runs) {
    const std::size_t first = segment_of(run.global);
    if ((run.global - starts_[first]) % divisor_ != 0) return run.global;
    const Index end = run.global + run.length;
    const std::size_t last = segment_of(end - 1);
    if (end != starts_[last + 1] && (end - starts_[last]) % divisor_ != 0) return end;
  }
  return std::nullopt;
}

DimShard BlockNumbering::to_blocks(const DimShard& elements) const {
  const Line whole(count());
  Line out;
  Index room = 0;  // what is left of the last block: padding there belongs to it
  auto run = elements.runs.begin();
  auto pad = elements.pads.begin();
  while (run != elements.runs.end() || pad != elements.pads.end()) {
    if (pad == elements.pads.end() || (run != elements.runs.end() && run->stored < pad->stored)) {
      const Index last = run->global + run->length - 1;
      out.append(whole, block_of(run->global), block_of(last) + 1);
      room = divisor_ - 1 - (last - starts_[segment_of(last)]) % divisor_;
      ++run;
    } else {
      const Index beyond = std::max(pad->length - room, Index{0});
      const Index padding = ceil_div(beyond, divisor_);
      const std::optional<Index> copy_of = pad->copy_of ? std::optional(block_of(*pad->copy_of)) : std::nullopt;
      out.append(Pad{0, padding, copy_of, pad->temporary});
      room += padding * divisor_ - pad->length;
      ++pad;
    }
  }
  return out.shard();
}

}  // namespace reshard::layout
