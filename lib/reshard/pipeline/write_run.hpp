#pragma once
// Small pieces that lie one behind the other in a file, written by one call. Where a checkpoint has thousands of small
// tensors, a call for each, its journal line and the wait for the file's lock would take most of the time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "reshard/pipeline/job.hpp"

namespace reshard::pipeline {

/// Of one thread. What is left in it when it goes is not written: the last write() belongs to its owner.
class WriteRun {
 public:
  /// More than this gains nothing.
  static constexpr std::int64_t kMostBytes = std::int64_t{256} << 10;

  WriteRun(const Job& job, std::int64_t capacity_bytes) : job_(&job), capacity_(capacity_bytes) {}

  /// Whether a piece is one of many that fit.
  bool takes(const planner::WriteRegion& region) const { return region.end - region.begin <= capacity_ / 4; }
  /// Memory for a region that this process writes and that the run takes, to be filled before the next call. What does
  /// not lie right before it is written first. Errors: those of a write.
  std::span<std::byte> take(const planner::WriteRegion& region);
  /// Writes what was taken.
  void write();

  std::int64_t peak_bytes() const { return memory_ == nullptr ? 0 : capacity_; }

 private:
  const Job* job_;
  std::int64_t capacity_;
  std::unique_ptr<std::byte[]> memory_;
  planner::WriteRegion taken_;
};

}  // namespace reshard::pipeline
