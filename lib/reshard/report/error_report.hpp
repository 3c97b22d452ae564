#pragma once
// What went wrong, in place of a result.

#include <string>

#include "reshard/base/error.hpp"

namespace reshard::report {

/// One line per issue.
std::string error_text(const Error& error);

/// "reshard.error".
std::string error_json(const Error& error);

}  // namespace reshard::report
