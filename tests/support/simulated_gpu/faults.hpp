#pragma once
// What a test asks of the simulated machine: its size, and what goes wrong on it. From the environment, read at first
// use and by `restart`:
//
//   SIMULATED_GPU_COUNT=8         devices; 0: as without a driver. CUDA_VISIBLE_DEVICES (numbers) chooses among them
//   SIMULATED_GPU_MEMORY=BYTES    of each device, 1 GiB where nothing is said
//   SIMULATED_GPU_SEED=N          order in which the streams get on
//   SIMULATED_GPU_FAIL=CALL:N:P   the N-th call (from 1) of CALL in process P fails; several, with commas. A failing
//                                 ncclCommGetAsyncError is an asynchronous error of NCCL
//   SIMULATED_GPU_HANG=CALL:N:P   never ends: of ncclCommInitRankConfig, or the work of ncclGroupEnd
//   SIMULATED_GPU_SLOW=CALL:MS:P  every call of CALL in process P takes so many milliseconds longer
//   SIMULATED_GPU_FLIP=N:P        a bit of the first byte that the N-th launch writes in process P is flipped

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simulated_gpu {

/// Number of this process in MPI; 0 without MPI.
int process();

/// Tells of a fault of the program under test, and ends it.
[[noreturn]] void misuse(const std::string& message);

/// Devices that this process sees, by their number on the machine; `no_driver`: none at all.
struct Machine {
  bool no_driver = false;
  std::vector<int> devices;
  std::size_t memory_bytes = 0;
  std::uint32_t seed = 0;
};
const Machine& machine();

enum class Fate { kWell, kFails, kHangs };

/// Counts a call and says what is to become of it; takes its time where it is to be slow.
Fate call(const char* name);

/// Whether the launch that is counted by this is to be followed by a flipped bit.
bool flips_after_launch();

/// Reads the environment again and counts from the beginning.
void restart();

}  // namespace simulated_gpu
