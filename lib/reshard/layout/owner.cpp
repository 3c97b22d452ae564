#include "reshard/layout/owner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"

namespace reshard::layout {
namespace {

[[noreturn]] void refuse(std::string message) {
  throw Error(Issue{ErrorCode::kOwner, "", kNoTensor, std::move(message)});
}

}  // namespace

Ownership::Ownership(std::string axis, Index size, Index count, const std::vector<Index>& split)
    : axis_(std::move(axis)), first_{0} {
  if (count < 1) refuse(fmt::format("owner: {} numbers on axis '{}', expected 1 or more", count, axis_));
  if (split.empty()) {
    if (count % size != 0)
      refuse(
          fmt::format("owner: {} numbers are not a multiple of the size {} of axis '{}'; give the shares with 'split'",
                      count, size, axis_));
    for (Index c = 1; c <= size; ++c) first_.push_back(c * (count / size));
    return;
  }
  Index sum = 0;
  for (const Index share : split) {
    if (share < 0) refuse(fmt::format("owner: 'split' has a share of {}, expected 0 or more", share));
    sum = checked_add(sum, share);
    first_.push_back(sum);
  }
  if (sum != count) refuse(fmt::format("owner: the shares of 'split' sum to {}, expected {}", sum, count));
  if (size == 1) first_ = {0, count};
  if (static_cast<Index>(first_.size()) != size + 1)
    refuse(fmt::format("owner: 'split' has {} shares, axis '{}' has size {}", split.size(), axis_, size));
}

OwnedNumber Ownership::locate(Index global) const {
  if (global < 0 || global >= first_.back())
    refuse(fmt::format("owner: number {} on axis '{}', expected 0 to {}", global, axis_, first_.back() - 1));
  // Coordinates with no number share their first with the next one; the last of them is the one that has it.
  const auto after = std::upper_bound(first_.begin(), first_.end(), global);
  const auto coordinate = static_cast<std::size_t>(after - first_.begin()) - 1;
  return {global, static_cast<Index>(coordinate), global - first_[coordinate]};
}

std::pair<Index, Index> Ownership::numbers_of(Index coordinate) const {
  const auto c = static_cast<std::size_t>(coordinate);
  return {first_[c], first_[c + 1] - first_[c]};
}

OwnedNumber Ownership::locate_local(Index coordinate, Index local) const {
  const auto [first, share] = numbers_of(coordinate);
  if (local < 0 || local >= share)
    refuse(fmt::format("owner: local number {} on coordinate {} of axis '{}', which has {}", local, coordinate, axis_,
                       share));
  return {first + local, coordinate, local};
}

}  // namespace reshard::layout
