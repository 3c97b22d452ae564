#include "support/simulated_gpu/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "support/simulated_gpu/faults.hpp"

namespace simulated_gpu {
namespace {

/// What cudaMalloc gives.
constexpr std::size_t kAlignment = 256;
constexpr std::byte kMargin{0xc5};

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

std::size_t page() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// By first byte. std::map: an allocation stays where it is while a step uses it.
std::map<std::uintptr_t, Allocation>& live() {
  static std::map<std::uintptr_t, Allocation> allocations;
  return allocations;
}

void protect(const Allocation& allocation, int protection) {
  if (mprotect(allocation.pages, allocation.page_bytes, protection) != 0) misuse("mprotect failed");
}

void check_margins(const Allocation& allocation) {
  const auto intact = [](const std::byte* begin, const std::byte* end) {
    return std::all_of(begin, end, [](std::byte byte) { return byte == kMargin; });
  };
  if (!intact(allocation.pages, allocation.begin) ||
      !intact(allocation.begin + allocation.bytes, allocation.pages + allocation.page_bytes))
    misuse(fmt::format("something was written beside an allocation of {} bytes", allocation.bytes));
}

}  // namespace

std::byte* allocate(MemoryKind kind, int device, std::size_t bytes) {
  if (kind == MemoryKind::kDevice && bytes > free_bytes(device)) return nullptr;
  const std::size_t aligned = round_up(bytes, kAlignment);
  Allocation out{kind, device, nullptr, bytes, nullptr, round_up(aligned, page())};
  void* all = mmap(nullptr, out.page_bytes + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  out.pages = static_cast<std::byte*>(all) + page();
  out.begin = out.pages + (out.page_bytes - aligned);
  protect(out, PROT_READ | PROT_WRITE);
  std::fill(out.pages, out.begin, kMargin);
  std::fill_n(out.begin, bytes, kPoison);
  std::fill(out.begin + bytes, out.pages + out.page_bytes, kMargin);
  if (kind == MemoryKind::kDevice) protect(out, PROT_NONE);
  live().emplace(reinterpret_cast<std::uintptr_t>(out.begin), out);
  return out.begin;
}

void release(MemoryKind kind, void* begin) {
  const auto found = live().find(reinterpret_cast<std::uintptr_t>(begin));
  if (found == live().end() || found->second.kind != kind)
    misuse(fmt::format("memory is freed that is none: {}", begin));
  protect(found->second, PROT_READ | PROT_WRITE);
  check_margins(found->second);
  // The pages go, their addresses stay taken: every later access faults.
  madvise(found->second.pages, found->second.page_bytes, MADV_DONTNEED);
  protect(found->second, PROT_NONE);
  live().erase(found);
}

std::size_t free_bytes(int device) {
  std::size_t used = 0;
  for (const auto& [begin, allocation] : live())
    if (allocation.kind == MemoryKind::kDevice && allocation.device == device) used += allocation.bytes;
  return machine().memory_bytes - std::min(used, machine().memory_bytes);
}

std::size_t live_allocations() {
  return live().size();
}

const Allocation* find(const void* begin) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  auto next = live().upper_bound(address);
  if (next == live().begin()) return nullptr;
  const Allocation& allocation = std::prev(next)->second;
  return address < reinterpret_cast<std::uintptr_t>(allocation.begin) + allocation.bytes ? &allocation : nullptr;
}

const Allocation& holder(MemoryKind kind, const void* begin, std::size_t bytes, const char* who) {
  const Allocation* found = find(begin);
  const char* name = kind == MemoryKind::kDevice ? "device" : "pinned";
  if (found == nullptr || found->kind != kind) misuse(fmt::format("{}: {} is not in {} memory", who, begin, name));
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(begin) - found->begin);
  if (bytes > found->bytes - offset)
    misuse(fmt::format("{}: {} bytes from {} on, in {} memory of {} bytes", who, bytes, offset, name, found->bytes));
  return *found;
}

Access::Access(const Allocation& allocation) : allocation_(allocation) {
  if (allocation.kind == MemoryKind::kDevice) protect(allocation, PROT_READ | PROT_WRITE);
}

Access::~Access() {
  check_margins(allocation_);
  if (allocation_.kind == MemoryKind::kDevice) protect(allocation_, PROT_NONE);
}

}  // namespace simulated_gpu
