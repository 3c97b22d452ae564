#pragma once
// Names near a pattern, for the message about a rule that matches nothing.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reshard::planner {

/// Up to three names, nearest first, by the edits that would make the pattern match (wildcards match for free). None
/// for an `re:` pattern, and none that would need a third of the pattern rewritten. `names` are at most a few hundred;
/// cost O(names x |pattern| x |name|).
std::vector<std::string> nearest_names(std::string_view pattern, std::span<const std::string> names);

}  // namespace reshard::planner
