#pragma once
// The file of --output: what a user names may be a pipe, a device or a link as well as a regular file.

#include <string>
#include <string_view>

#include "reshard/pipeline/formats.hpp"

namespace reshard::app {

/// Writes the text from the file's beginning, in order; links are followed. A regular file is created or replaced (its
/// other names keep what it held), and flushed to disk. Errors: kIo, also where nobody reads a pipe within some
/// seconds.
void write_report(const std::string& path, std::string_view text);

/// Errors: kUsage where the place of a report is a directory, a file of a checkpoint (by its beginning, whatever
/// checkpoint that is) or a plan: what a user has taken for the place of a report by mistake. kIo.
void check_replaceable(const std::string& path, const pipeline::Formats& formats);

/// Whether the report of an error may go there, which may come before all inputs are known: not over a regular file
/// that is neither empty nor a report of reshard. False, too, for a file that cannot be read.
bool may_take_error(const std::string& path);

}  // namespace reshard::app
