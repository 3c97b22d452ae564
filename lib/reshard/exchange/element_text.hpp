#pragma once
// One element as text in its dtype, for reports of what differs.

#include <cstddef>
#include <span>
#include <string>

#include "reshard/base/dtype.hpp"

namespace reshard::exchange {

/// `element`: size_bytes(dtype) bytes, little-endian. The shortest text that is this number alone among those of the
/// dtype ("1.5", "-0", "inf"); of a NaN also its bits, since NaNs differ in them: "nan (0x7fc00001)". A bool is "false"
/// or "true", and a number where it is neither 0 nor 1; a complex number "(1.5, -2)".
std::string element_text(Dtype dtype, std::span<const std::byte> element);

}  // namespace reshard::exchange
