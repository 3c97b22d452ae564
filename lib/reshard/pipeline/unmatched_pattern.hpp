#pragma once
// A pattern of the command line that matches no tensor of the target, and what may have been meant.

#include <string>
#include <vector>

#include "reshard/plan/pattern.hpp"

namespace reshard::pipeline {

/// Names the pattern, how many `names` there are, and, where that helps, the pattern with `**` for `*` or around it, or
/// the nearest names. `pattern` matches none of `names`.
std::string unmatched_message(const plan::NamePattern& pattern, const std::vector<std::string>& names);

}  // namespace reshard::pipeline
