#pragma once
// Text that must be UTF-8: names in formats that say so, and names that patterns match by characters.

#include <string_view>

namespace reshard {

/// Well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace reshard
