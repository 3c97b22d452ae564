#pragma once
// The line that tells how far a run is.

#include <cstdint>
#include <string>

namespace reshard::report {

/// " 42 %  1.26 GiB of 3 GiB  512 MiB/s  3.5 s left": `seconds` since the first byte. The time left is told from a
/// hundredth of `total_bytes` (more than 0) on: what the first bytes took says nothing of the rest.
std::string progress_text(std::int64_t done_bytes, std::int64_t total_bytes, double seconds);

}  // namespace reshard::report
