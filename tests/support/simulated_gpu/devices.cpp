// Devices of the simulated machine and their memory: the CUDA runtime's calls.

#include <cuda_runtime_api.h>

#include <cstring>

#include "support/simulated_gpu/faults.hpp"
#include "support/simulated_gpu/memory.hpp"
#include "support/simulated_gpu/streams.hpp"

using namespace simulated_gpu;

namespace {

/// Memory is neither given nor taken while work is queued: the real calls wait for kernels, and those of NCCL wait for
/// other processes.
cudaError_t allocate_idle(const char* name, MemoryKind kind, void** data, std::size_t bytes) {
  if (call(name) == Fate::kFails) return cudaErrorMemoryAllocation;
  if (is_work_queued()) misuse(std::string(name) + " while work is queued");
  if (bytes == 0) misuse(std::string(name) + " of no bytes");
  *data = allocate(kind, current_device(), bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t free_idle(const char* name, MemoryKind kind, void* data) {
  advance_all();
  if (is_work_queued()) misuse(std::string(name) + " waits for work that does not end");
  release(kind, data);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  if (call("cudaGetDeviceCount") == Fate::kFails) return cudaErrorUnknown;
  if (machine().no_driver) return cudaErrorInsufficientDriver;
  *count = static_cast<int>(machine().devices.size());
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (call("cudaGetDeviceProperties") == Fate::kFails) return cudaErrorUnknown;
  if (device < 0 || device >= static_cast<int>(machine().devices.size())) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "simulated GPU");
  std::memcpy(properties->uuid.bytes, "simulated GPU  ", 15);
  properties->uuid.bytes[15] = static_cast<char>(machine().devices[static_cast<std::size_t>(device)]);
  properties->totalGlobalMem = machine().memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return allocate_idle("cudaMalloc", MemoryKind::kDevice, data, bytes);
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned int) {
  return allocate_idle("cudaHostAlloc", MemoryKind::kPinned, data, bytes);
}

cudaError_t cudaFree(void* data) {
  return free_idle("cudaFree", MemoryKind::kDevice, data);
}

cudaError_t cudaFreeHost(void* data) {
  return free_idle("cudaFreeHost", MemoryKind::kPinned, data);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (call("cudaMemGetInfo") == Fate::kFails) return cudaErrorUnknown;
  *free = free_bytes(current_device());
  *total = machine().memory_bytes;
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    default:
      return "cudaErrorUnknown";
  }
}

const char* cudaGetErrorString(cudaError_t) {
  return "simulated failure";
}
