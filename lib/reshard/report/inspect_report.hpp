#pragma once
// What is in a checkpoint.

#include <string>

#include "reshard/pipeline/inspect.hpp"

namespace reshard::report {

/// A table, names folded.
std::string inspect_text(const pipeline::Inspection& inspection);

/// "reshard.inspect".
std::string inspect_json(const pipeline::Inspection& inspection);

}  // namespace reshard::report
