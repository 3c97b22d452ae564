#include "reshard/exchange/cuda/memory.hpp"

#include <fmt/format.h>

#include <string>

#include "reshard/base/error.hpp"
#include "reshard/exchange/cuda/cuda_error.hpp"

namespace reshard::exchange::cuda {
namespace {

[[noreturn]] void out_of_memory(std::string message) {
  throw Error(Issue{ErrorCode::kMemory, "", kNoTensor, std::move(message)});
}

}  // namespace

DeviceBlock::DeviceBlock(std::int64_t bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t result = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (result == cudaErrorMemoryAllocation) {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    out_of_memory(
        fmt::format("GPU memory: no {} bytes in one piece, {} of the GPU's {} are free; give a smaller "
                    "--device-memory",
                    bytes, free, total));
  }
  check(result, "cudaMalloc");
  data_.reset(static_cast<std::byte*>(data));
}

PinnedBlock::PinnedBlock(std::int64_t bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t result = cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocDefault);
  if (result == cudaErrorMemoryAllocation)
    out_of_memory(fmt::format("pinned memory: the system does not give {} bytes; give a smaller --memory", bytes));
  check(result, "cudaHostAlloc");
  data_.reset(static_cast<std::byte*>(data));
}

}  // namespace reshard::exchange::cuda
