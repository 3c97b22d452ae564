#pragma once
// The one allocation that all tensor bytes of a worker pass through: taken once, cut up anew for every tile or round.
// So the memory bound is the arena's size, and memory that was touched once is used again.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "reshard/base/error.hpp"
#include "reshard/planner/rounds.hpp"

namespace reshard::pipeline {

class Arena {
 public:
  explicit Arena(std::int64_t bytes)
      : bytes_(bytes + planner::kBufferAlignment),
        memory_(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes_))) {
    // new[] aligns to 16; buffers begin at multiples of 64.
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    start_ = static_cast<std::int64_t>((~address + 1) % static_cast<std::uintptr_t>(planner::kBufferAlignment));
    used_ = start_;
  }

  /// The next free bytes. The plan fits the arena: running out is a fault of ours.
  std::span<std::byte> take(std::int64_t bytes) {
    const std::int64_t step = planner::buffer_bytes(bytes);
    if (step > bytes_ - used_) internal_error("staging memory is smaller than the plan says");
    const std::span<std::byte> out(memory_.get() + used_, static_cast<std::size_t>(bytes));
    used_ += step;
    if (used_ - start_ > peak_) peak_ = used_ - start_;
    return out;
  }
  void reset() { used_ = start_; }
  /// What is taken after mark() is free again after rewind().
  std::int64_t mark() const { return used_; }
  void rewind(std::int64_t mark) { used_ = mark; }
  /// The most bytes that were in use at a time.
  std::int64_t peak_bytes() const { return peak_; }

 private:
  std::int64_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::int64_t start_ = 0;
  std::int64_t used_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace reshard::pipeline
