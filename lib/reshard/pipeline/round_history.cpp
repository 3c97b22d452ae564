#include "reshard/pipeline/round_history.hpp"

#include <algorithm>

namespace reshard::pipeline {
namespace {

constexpr std::size_t kMostEntries = 256;
constexpr std::size_t kMostNumbers = std::size_t{1} << 20;

void raise_to(std::vector<std::int64_t>& most, const std::vector<std::int64_t>& other) {
  for (std::size_t p = 0; p < most.size(); ++p) most[p] = std::max(most[p], other[p]);
}

}  // namespace

RoundHistory::RoundHistory(std::size_t processes)
    : capacity_(std::clamp<std::size_t>(kMostNumbers / std::max<std::size_t>(processes, 1) / 2 * 2, 2, kMostEntries)) {}

void RoundHistory::add(const std::vector<std::int64_t>& held_bytes) {
  if (rounds_++ % rounds_per_entry_ != 0) {
    raise_to(entries_.back(), held_bytes);
    return;
  }
  if (entries_.size() == capacity_) {
    for (std::size_t i = 0; i < capacity_; i += 2) {
      raise_to(entries_[i], entries_[i + 1]);
      entries_[i / 2].swap(entries_[i]);
    }
    entries_.resize(capacity_ / 2);
    rounds_per_entry_ *= 2;
  }
  entries_.push_back(held_bytes);
}

}  // namespace reshard::pipeline
