#pragma once
// Checks of names that formats share.

#include <string_view>

namespace reshard::format {

/// Well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace reshard::format
