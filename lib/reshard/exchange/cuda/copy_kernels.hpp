#pragma once
// Copy tasks on the GPU.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "reshard/exchange/copy_task.hpp"

namespace reshard::exchange::cuda {

/// Runs `count` tasks (device memory, numbered by number_tiles, `tiles` in all) on one block of device memory that
/// begins at a multiple of 16. The tasks run in no order: none reads or writes what another one writes.
cudaError_t launch_copies(const CopyTask* tasks, std::int64_t count, std::int64_t tiles, std::byte* memory,
                          cudaStream_t stream);

}  // namespace reshard::exchange::cuda
