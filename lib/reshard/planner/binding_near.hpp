#pragma once
// Names near a pattern and patterns near a name, for messages about rules that match nothing and names without a rule.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reshard::planner {

/// Up to three names, nearest first, by the edits that would make the pattern match (wildcards match for free). None
/// for an `re:` pattern, and none that would need a third of the pattern rewritten. `names` are at most a few hundred;
/// cost O(names x |pattern| x |name|).
std::vector<std::string> nearest_names(std::string_view pattern, std::span<const std::string> names);

/// The pattern with every run of `*` as `**`; "re:" expressions have no such stars.
std::string with_wide_stars(std::string_view pattern);

/// The position of the pattern that needs the fewest edits to match; of several one that matches nothing else, the
/// first of these. As above, none that would need a third rewritten. Cost O(patterns x |pattern| x |name|).
std::optional<std::size_t> nearest_pattern(std::string_view name, std::span<const std::string> patterns,
                                           const std::vector<bool>& matches_something);

}  // namespace reshard::planner
