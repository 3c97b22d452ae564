#pragma once
// The file of --output: what a user names may be a pipe, a device or a link as well as a regular file.

#include <string>
#include <string_view>

namespace reshard::app {

/// Writes the text from the file's beginning, in order; links are followed. A regular file is created or replaced, and
/// flushed to disk. Errors: kIo.
void write_report(const std::string& path, std::string_view text);

}  // namespace reshard::app
