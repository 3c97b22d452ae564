#pragma once
// Memory of the simulated machine. Device memory faults on every access outside of a step of a stream; pinned memory is
// the host's. Both begin poisoned, lie between pages that fault, and are never given out again once freed.

#include <cstddef>

namespace simulated_gpu {

enum class MemoryKind { kDevice, kPinned };

inline constexpr std::byte kPoison{0xdb};
/// Of the destination of a copy to the host, until the copy is done.
inline constexpr std::byte kEarlyRead{0xda};

struct Allocation {
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;  ///< of the machine
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::byte* pages = nullptr;  ///< `begin` lies in these, so that the end is the end of a page, up to alignment
  std::size_t page_bytes = 0;
};

/// Null where there is no memory left.
std::byte* allocate(MemoryKind kind, int device, std::size_t bytes);
void release(MemoryKind kind, void* begin);

/// Of a device: what is not allocated.
std::size_t free_bytes(int device);

/// What is allocated at the moment.
std::size_t live_allocations();

/// The allocation that all of these bytes lie in. `who` uses them: for the message where there is none.
const Allocation& holder(MemoryKind kind, const void* begin, std::size_t bytes, const char* who);
/// The same, without a range.
const Allocation* find(const void* begin);

/// Device memory is accessible while this lives. Looks afterwards whether anything was written beside it.
class Access {
 public:
  explicit Access(const Allocation& allocation);
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  const Allocation& allocation_;
};

}  // namespace simulated_gpu
