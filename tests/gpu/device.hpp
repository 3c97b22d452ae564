#pragma once
// The GPU of a test program, and memory on it.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>

namespace reshard::gpu_test {

/// What a program returns that found no GPU; CTest calls it skipped.
inline constexpr int kSkipped = 77;

inline void check(cudaError_t result) {
  if (result != cudaSuccess)
    throw std::runtime_error(fmt::format("{}: {}", cudaGetErrorName(result), cudaGetErrorString(result)));
}

/// Why there is no GPU to run on; nothing where there is one.
inline std::optional<std::string> no_gpu() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) return cudaGetErrorString(result);
  if (count == 0) return "no CUDA device";
  return std::nullopt;
}

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) {
    void* data = nullptr;
    check(cudaMalloc(&data, bytes));
    data_ = static_cast<std::byte*>(data);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(data_); }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

}  // namespace reshard::gpu_test
