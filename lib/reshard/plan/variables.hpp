#pragma once
// `vars` of a plan and the replacement of every `${...}` in its strings and keys.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reshard/base/value.hpp"
#include "reshard/plan/expression.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {

/// `vars` of the root with the command line's changes. Faults: kSchema (no map of integers, a name that expressions
/// cannot hold, a change to a variable the plan does not have).
Variables read_variables(const Value& root, const std::vector<std::pair<std::string, std::int64_t>>& changes,
                         Faults& faults);

/// The root with every `${...}` outside `vars` replaced: a string that is exactly one becomes an integer, inside a
/// longer string or a key it becomes digits. Faults: kSchema (see evaluate; `${` that is never closed), kDupKey (two
/// keys became equal).
Value substitute(const Value& root, const Variables& variables, Faults& faults);

}  // namespace reshard::plan
