#pragma once
// What went wrong, in place of a result.

#include <string>

#include "reshard/base/error.hpp"

namespace reshard::report {

/// One line per issue.
std::string error_text(const Error& error);

/// "reshard.error".
std::string error_json(const Error& error);

/// "reshard.error" of a check that found nothing.
std::string no_errors_json();

}  // namespace reshard::report
