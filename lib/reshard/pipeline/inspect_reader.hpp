#pragma once
// Reads the JSON report of `reshard inspect` back (interface section 6), so that a reshard is planned without the
// checkpoint at hand.

#include "reshard/base/file.hpp"
#include "reshard/pipeline/inspect.hpp"

namespace reshard::pipeline {

/// Whether a source is such a report: a file named *.json that is no index of a set.
bool is_report(const fs::path& source);

/// Names come in bytewise order, whatever the order in the file. `warnings` and `ignored_files` are left empty.
/// Errors: kFormat (another document, a member of the wrong kind, ranks out of range or told twice, a name twice), kIo.
Inspection read_inspection(const fs::path& path);

}  // namespace reshard::pipeline
