#include "reshard/exchange/cuda/copy_kernels.hpp"

#include <limits>

#include "reshard/exchange/cuda/copy_body.hpp"

namespace reshard::exchange::cuda {
namespace {

// About 90 registers each: five blocks share a multiprocessor, and every thread has at least 16 words of a tile.
constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) copy_tiles(const CopyTask* tasks, std::int64_t count, std::byte* memory) {
  copy_tile(tasks, count, blockIdx.x, static_cast<int>(threadIdx.x), kThreads, memory);
}

}  // namespace

cudaError_t launch_copies(const CopyTask* tasks, std::int64_t count, std::int64_t tiles, std::byte* memory,
                          cudaStream_t stream) {
  if (tiles == 0) return cudaSuccess;
  if (tiles > std::numeric_limits<int>::max()) return cudaErrorInvalidValue;
  copy_tiles<<<static_cast<unsigned>(tiles), kThreads, 0, stream>>>(tasks, count, memory);
  return cudaGetLastError();
}

}  // namespace reshard::exchange::cuda
