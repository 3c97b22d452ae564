#include "reshard/planner/binding_issues.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {

void FoldedIssues::add(std::size_t rule, ErrorCode code, const std::optional<std::string>& tensor,
                       const std::string& message, const std::string& cause) {
  Entry& entry = entries_[{rule, code, cause}];
  ++entry.count;
  if (entry.count > 1 && entry.tensor <= tensor) return;
  entry.tensor = tensor;
  entry.message = message;
}

bool FoldedIssues::has(std::size_t rule) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& entry) { return std::get<0>(entry.first) == rule; });
}

std::vector<Issue> FoldedIssues::issues() const {
  struct Line {
    std::size_t rule;
    Issue issue;
  };
  std::vector<Line> lines;
  for (const auto& [key, entry] : entries_) {
    const auto& [rule, code, cause] = key;
    std::string message = entry.message;
    if (entry.count > 1)
      message +=
          fmt::format(" (and {} more {} of this rule)", entry.count - 1, entry.count == 2 ? "tensor" : "tensors");
    lines.push_back({rule, Issue{code, rule_place(*plan_, rule), entry.tensor, std::move(message)}});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::tie(a.rule, a.issue.tensor, a.issue.code) < std::tie(b.rule, b.issue.tensor, b.issue.code);
  });
  std::vector<Issue> out;
  for (Line& line : lines) out.push_back(std::move(line.issue));
  return out;
}

void FoldedIssues::throw_if_any() const {
  if (!empty()) throw Error(Exit::kCheckpoint, issues());
}

}  // namespace reshard::planner
