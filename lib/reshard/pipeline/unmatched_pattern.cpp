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
  const plan::NamePattern wide(planner::with_wide_stars(pattern.text()));
  const auto matches =
      std::count_if(names.begin(), names.end(), [&](const auto& name) { return wide.match(name).has_value(); });
  if (matches > 0)
    return out + fmt::format("; `*` stops at '.' and '/': '**' in its place, as in '{}', matches {} of them",
                             wide.text(), matches);
  if (!pattern.text().starts_with("re:")) {
    const plan::NamePattern tail("**." + pattern.text());
    const auto ends =
        std::count_if(names.begin(), names.end(), [&](const auto& name) { return tail.match(name).has_value(); });
    if (ends > 0)
      return out + fmt::format("; a pattern is for the whole name: '{}' matches {} of them", tail.text(), ends);
  }
  const std::vector<std::string> near = planner::nearest_names(pattern.text(), samples_of(names));
  return near.empty() ? out : out + fmt::format("; nearest: '{}'", fmt::join(near, "', '"));
}

}  // namespace reshard::pipeline
