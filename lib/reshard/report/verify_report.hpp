#pragma once
// What a finished target has otherwise than its manifest says.

#include <string>

#include "reshard/pipeline/verify.hpp"

namespace reshard::report {

/// A line of what was read, then one for each problem.
std::string verify_text(const pipeline::Verification& verification);

/// "reshard.verify".
std::string verify_json(const pipeline::Verification& verification);

}  // namespace reshard::report
