#pragma once
// Many names as few patterns: numbers that count through a range are folded.
//
//   layers.0.w, layers.1.w, layers.2.w, layers.3.w, norm  ->  layers.{0..3}.w, norm
//   experts.{0..7}.w{1,3}: every number of a name may count
//
// A pattern stands for exactly the names it was made of: numbers are folded only where all combinations are there.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace reshard::report {

struct FoldedNames {
  std::string pattern;
  std::vector<std::size_t> members;              ///< numbers of the names, ascending
  std::vector<std::string> texts;                ///< before, between and after the numbers
  std::vector<std::vector<std::int64_t>> slots;  ///< the numbers at each place, ascending

  friend bool operator==(const FoldedNames&, const FoldedNames&) = default;
};

/// In order of the first member. `groups` is parallel to `names`: names of different groups are not folded together.
/// O(n log n) for names of few numbers.
std::vector<FoldedNames> fold_names(std::span<const std::string> names, std::span<const std::size_t> groups);

/// Numbers from `first` to `last`, each `step` more than the one before.
struct NumberRun {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t step = 1;

  friend bool operator==(const NumberRun&, const NumberRun&) = default;
};

/// Ascending numbers as few runs, greedily from the front; a pair that is not neighbours is two runs.
std::vector<NumberRun> number_runs(const std::vector<std::int64_t>& numbers);

/// "0..31", "0,2", "0..62..2" (every second), "0..3,8..11". `numbers` ascend.
std::string range_text(const std::vector<std::int64_t>& numbers);

/// Numbers for groups, from 0 in order of first use.
template <typename Key>
std::vector<std::size_t> group_numbers(const std::vector<Key>& keys) {
  std::map<Key, std::size_t> known;
  std::vector<std::size_t> out;
  for (const Key& key : keys) out.push_back(known.try_emplace(key, known.size()).first->second);
  return out;
}

}  // namespace reshard::report
