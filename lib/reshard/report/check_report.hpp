#pragma once
// The result of a plan that was checked alone and is well formed; of one that is not, error_report.hpp tells.

#include <string>

namespace reshard::report {

/// "reshard.check", without errors and warnings: a plan alone has none that do not refuse it.
std::string check_json();

}  // namespace reshard::report
