#include "reshard/report/fold_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace reshard::report {
namespace {

using Numbers = std::vector<std::int64_t>;

/// A name without its numbers, and the numbers.
struct SplitName {
  std::vector<std::string> texts;  // before, between and after the numbers
  Numbers numbers;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Numbers with leading zeros, and those too long to count with, belong to the text.
SplitName split(const std::string& name) {
  constexpr std::size_t kMostDigits = 15;
  SplitName out;
  std::string text;
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    const std::size_t digits = end - i;
    if (digits > 0 && digits <= kMostDigits && (digits == 1 || name[i] != '0')) {
      out.texts.push_back(std::exchange(text, {}));
      out.numbers.push_back(std::stoll(name.substr(i, digits)));
      i = end;
    } else {
      end = std::max(end, i + 1);
      text += name.substr(i, end - i);
      i = end;
    }
  }
  out.texts.push_back(std::move(text));
  return out;
}

/// All combinations of the numbers of its slots.
struct Cube {
  std::vector<Numbers> slots;
  std::vector<std::size_t> members;
};

/// Joins cubes that differ in this slot only.
std::vector<Cube> joined(std::vector<Cube> cubes, std::size_t slot) {
  std::map<std::vector<Numbers>, std::size_t> known;  // by the other slots
  std::vector<Cube> out;
  for (Cube& cube : cubes) {
    Numbers numbers = std::exchange(cube.slots[slot], {});
    const auto [entry, added] = known.try_emplace(cube.slots, out.size());
    if (added) out.push_back({cube.slots, {}});
    Cube& all = out[entry->second];
    all.slots[slot].insert(all.slots[slot].end(), numbers.begin(), numbers.end());
    all.members.insert(all.members.end(), cube.members.begin(), cube.members.end());
  }
  for (Cube& cube : out) std::sort(cube.slots[slot].begin(), cube.slots[slot].end());
  return out;
}

std::string pattern_of(const std::vector<std::string>& texts, const Cube& cube) {
  std::string out = texts[0];
  for (std::size_t s = 0; s < cube.slots.size(); ++s) {
    const Numbers& numbers = cube.slots[s];
    out += numbers.size() == 1 ? fmt::format("{}", numbers[0]) : fmt::format("{{{}}}", range_text(numbers));
    out += texts[s + 1];
  }
  return out;
}

}  // namespace

std::string range_text(const std::vector<std::int64_t>& numbers) {
  const std::size_t n = numbers.size();
  if (n > 2) {
    const std::int64_t step = numbers[1] - numbers[0];
    bool even = step > 1;
    for (std::size_t i = 1; i < n; ++i) even = even && numbers[i] - numbers[i - 1] == step;
    if (even) return fmt::format("{}..{}..{}", numbers.front(), numbers.back(), step);
  }
  std::string out;
  for (std::size_t i = 0; i < n;) {
    std::size_t last = i;
    while (last + 1 < n && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!out.empty()) out += ',';
    out += last == i ? fmt::format("{}", numbers[i])
                     : fmt::format("{}{}{}", numbers[i], last == i + 1 ? "," : "..", numbers[last]);
    i = last + 1;
  }
  return out;
}

std::vector<NumberRun> number_runs(const std::vector<std::int64_t>& numbers) {
  std::vector<NumberRun> out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    const std::int64_t step = i + 1 < numbers.size() ? numbers[i + 1] - numbers[i] : 1;
    while (last + 1 < numbers.size() && numbers[last + 1] - numbers[last] == step) ++last;
    if (last == i + 1 && step != 1) last = i;
    out.push_back({numbers[i], numbers[last], last == i ? 1 : step});
    i = last + 1;
  }
  return out;
}

std::vector<FoldedNames> fold_names(std::span<const std::string> names, std::span<const std::size_t> groups) {
  // By group and the text around the numbers.
  std::map<std::pair<std::size_t, std::vector<std::string>>, std::vector<Cube>> families;
  for (std::size_t i = 0; i < names.size(); ++i) {
    SplitName name = split(names[i]);
    Cube cube;
    for (const std::int64_t number : name.numbers) cube.slots.push_back({number});
    cube.members = {i};
    families[{groups[i], std::move(name.texts)}].push_back(std::move(cube));
  }
  std::vector<FoldedNames> out;
  for (auto& [family, cubes] : families) {
    const std::vector<std::string>& texts = family.second;
    for (std::size_t slot = texts.size() - 1; slot-- > 0;) cubes = joined(std::move(cubes), slot);
    for (Cube& cube : cubes) {
      std::sort(cube.members.begin(), cube.members.end());
      std::string pattern = pattern_of(texts, cube);
      out.push_back({std::move(pattern), std::move(cube.members), texts, std::move(cube.slots)});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const FoldedNames& a, const FoldedNames& b) { return a.members.front() < b.members.front(); });
  return out;
}

}  // namespace reshard::report
