#pragma once
// How long a plan will take, from bytes alone: a model small enough to be checked by hand.
//
//   floor   = max(needed, written) / storage rate
//             every needed byte of the source once, reading and writing at the same time: no transport is faster on
//             such storage
//   seconds = (read + written) / storage rate + exchanged / (network rate x processes) + files x seconds per file
//             nothing overlaps, some bytes are read more than once
//
// 16 GiB in, 16 GiB out, 4 files, one process: floor 8.590 s, seconds 17.184 s. What a machine really has differs; the
// report says which rate was assumed, so that a reader can scale it.

#include <cstdint>

namespace reshard::pipeline {

/// Storage, each way, all processes together: one good NVMe drive, or a small share of a parallel file system.
inline constexpr double kStorageBytesPerSecond = 2e9;
/// What one process sends while the others do too.
inline constexpr double kNetworkBytesPerSecond = 2e9;
/// Creating, flushing and publishing one file.
inline constexpr double kSecondsPerFile = 1e-3;

struct Workload {
  std::int64_t needed_bytes = 0;     ///< true bytes of the source that the target needs, each once
  std::int64_t read_bytes = 0;       ///< by all processes; at least needed_bytes
  std::int64_t exchanged_bytes = 0;  ///< that leave a process
  std::int64_t written_bytes = 0;
  std::int64_t files = 0;  ///< of the target
  int processes = 1;
};

struct Estimate {
  double seconds = 0;
  double floor_seconds = 0;  ///< at most `seconds`

  friend bool operator==(const Estimate&, const Estimate&) = default;
};

/// In whole microseconds.
Estimate estimate(const Workload& workload);

}  // namespace reshard::pipeline
