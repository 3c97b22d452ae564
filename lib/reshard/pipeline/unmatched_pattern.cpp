#include "reshard/pipeline/unmatched_pattern.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <set>

#include "reshard/planner/binding_near.hpp"
#include "reshard/planner/binding_text.hpp"

namespace reshard::pipeline {
namespace {

constexpr std::size_t kMaxFormsSearched = 400;

/// The pattern with every run of `*` as `**`; "re:" expressions have no such stars.
std::string with_wide_stars(const std::string& pattern) {
  if (pattern.starts_with("re:")) return pattern;
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '*') {
      out += pattern[i];
    } else if (i == 0 || pattern[i - 1] != '*') {
      out += "**";
    }
  }
  return out;
}

/// One name of every form, the first ones.
std::vector<std::string> samples_of(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  std::set<std::string> forms;
  for (const std::string& name : names)
    if (out.size() < kMaxFormsSearched && forms.insert(planner::name_form(name)).second) out.push_back(name);
  return out;
}

}  // namespace

std::string unmatched_message(const plan::NamePattern& pattern, const std::vector<std::string>& names) {
  std::string out = fmt::format("'{}' matches no tensor of the target (it has {})", pattern.text(), names.size());
  const plan::NamePattern wide(with_wide_stars(pattern.text()));
  const auto matches =
      std::count_if(names.begin(), names.end(), [&](const auto& name) { return wide.match(name).has_value(); });
  if (matches > 0)
    return out + fmt::format("; `*` stops at '.' and '/': '**' in its place, as in '{}', matches {} of them",
                             wide.text(), matches);
  const std::vector<std::string> near = planner::nearest_names(pattern.text(), samples_of(names));
  return near.empty() ? out : out + fmt::format("; nearest: '{}'", fmt::join(near, "', '"));
}

}  // namespace reshard::pipeline
