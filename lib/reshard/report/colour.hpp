#pragma once
// Colour for a report that goes to a terminal.

#include <string>
#include <string_view>

namespace reshard::report {

/// Titles (lines that begin at the first column) are bold, labels of a report's head and remarks dim, warnings yellow.
/// Nothing else is added: without the escape sequences it is the text that came in.
std::string coloured(std::string_view text);

}  // namespace reshard::report
