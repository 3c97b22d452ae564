#pragma once
// How long a plan will take, from bytes alone: a model small enough to be checked by hand.
//
//   floor   = max(needed source bytes, written bytes) / storage rate
//             reading and writing overlap, every byte once: no transport can be faster on such storage
//   seconds = max(read bytes / storage rate, written bytes / storage rate, busiest process's bytes / core rate)
//             + exchanged bytes / (network rate x processes) + files x seconds per file
//
// What a machine really has differs; the report says which storage rate was assumed, so that a reader can scale it.

#include <cstdint>

namespace reshard::pipeline {

/// Storage, each way, all processes together: one good NVMe drive, or a small share of a parallel file system.
inline constexpr double kStorageBytesPerSecond = 2e9;
/// What one process does with its bytes (digest twice, move once), measured on one core of a server.
inline constexpr double kProcessBytesPerSecond = 2.5e9;
/// What one process sends while others do too.
inline constexpr double kNetworkBytesPerSecond = 2e9;
/// Creating, flushing and publishing one file.
inline constexpr double kSecondsPerFile = 1e-3;

struct Workload {
  std::int64_t needed_bytes = 0;     ///< true bytes of the source that the target needs, each once
  std::int64_t read_bytes = 0;       ///< by all processes
  std::int64_t exchanged_bytes = 0;  ///< that leave a process
  std::int64_t written_bytes = 0;
  std::int64_t busiest_bytes = 0;  ///< written by the process that writes most
  std::int64_t files = 0;          ///< of the target
  int processes = 1;
};

struct Estimate {
  double seconds = 0;
  double floor_seconds = 0;
};

/// In whole microseconds. seconds >= floor_seconds.
Estimate estimate(const Workload& workload);

}  // namespace reshard::pipeline
