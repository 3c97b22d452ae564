#pragma once
// How much memory this process has had at most.

#include <cstdint>

namespace reshard::pipeline {

/// Of this program alone. Where there is no /proc, an upper bound: getrusage includes the launcher that became it.
std::int64_t peak_rss_bytes();

}  // namespace reshard::pipeline
