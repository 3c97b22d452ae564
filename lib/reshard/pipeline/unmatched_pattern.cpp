#include "reshard/pipeline/unmatched_pattern.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>

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

/// None of a text that is no pattern: stars that were added to one of 64 captures are too many.
std::ptrdiff_t matches_of(std::string_view text, const std::vector<std::string>& names) {
  try {
    const plan::NamePattern pattern(text);
    return std::count_if(names.begin(), names.end(), [&](const auto& name) { return pattern.match(name).has_value(); });
  } catch (const Error&) {
    return 0;
  }
}

/// "**o_proj**" of "o_proj" and of "o_proj*"
std::string anywhere(std::string_view pattern) {
  const std::size_t first = std::min(pattern.find_first_not_of('*'), pattern.size());
  const std::size_t last = pattern.find_last_not_of('*') + 1;
  return first == pattern.size() ? "**" : fmt::format("**{}**", pattern.substr(first, last - first));
}

}  // namespace

std::string unmatched_message(const plan::NamePattern& pattern, const std::vector<std::string>& names) {
  std::string out = fmt::format("'{}' matches no tensor of the target (it has {})", pattern.text(), names.size());
  const std::string wide = planner::with_wide_stars(pattern.text());
  if (const std::ptrdiff_t matches = matches_of(wide, names); matches > 0)
    return out +
           fmt::format("; `*` stops at '.' and '/': '**' in its place, as in '{}', matches {} of them", wide, matches);
  if (!pattern.text().starts_with("re:"))
    for (const std::string& text : {"**." + pattern.text(), anywhere(pattern.text())}) {
      const std::ptrdiff_t matches = matches_of(text, names);
      if (matches > 0)
        return out + fmt::format("; a pattern is for the whole name: '{}' matches {} of them", text, matches);
    }
  const std::vector<std::string> near = planner::nearest_names(pattern.text(), samples_of(names));
  return near.empty() ? out : out + fmt::format("; nearest: '{}'", fmt::join(near, "', '"));
}

}  // namespace reshard::pipeline
