#pragma once
// Owners of memory of the device that is current, and of host memory that its copy engines reach. Errors: kMemory with
// the bytes asked for, kDevice. A block of no bytes has no address. Freeing waits for all work of the device.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace reshard::exchange::cuda {

/// Memory of the device; the host cannot touch it.
class DeviceBlock {
 public:
  explicit DeviceBlock(std::int64_t bytes);
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { cudaFree(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

/// Host memory that stays where it is: copies from and to it run beside the host.
class PinnedBlock {
 public:
  explicit PinnedBlock(std::int64_t bytes);
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { cudaFreeHost(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace reshard::exchange::cuda
