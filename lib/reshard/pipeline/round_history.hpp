#pragma once
// What every process holds in every round of an exchange, in bounded memory.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reshard::pipeline {

/// Where there are many rounds, an entry is the most that each process holds in several rounds that follow each other.
class RoundHistory {
 public:
  RoundHistory() = default;
  explicit RoundHistory(std::size_t processes);

  /// `held_bytes`: of the next round, by process.
  void add(const std::vector<std::int64_t>& held_bytes);

  std::int64_t rounds() const { return rounds_; }
  std::int64_t rounds_per_entry() const { return rounds_per_entry_; }
  /// By entry, then process. The last entry may stand for fewer rounds.
  const std::vector<std::vector<std::int64_t>>& entries() const { return entries_; }

 private:
  std::size_t capacity_ = 2;  // even
  std::int64_t rounds_ = 0;
  std::int64_t rounds_per_entry_ = 1;
  std::vector<std::vector<std::int64_t>> entries_;
};

}  // namespace reshard::pipeline
