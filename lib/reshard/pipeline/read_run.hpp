#pragma once
// Small pieces that lie one behind the other in a source file, read by one call. Where a checkpoint has thousands of
// small tensors, a call for each would take longer than the bytes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reshard/pipeline/job.hpp"

namespace reshard::pipeline {

/// Of one thread.
class ReadRun {
 public:
  /// More than this gains nothing.
  static constexpr std::int64_t kMostBytes = std::int64_t{256} << 10;
  /// Pieces beyond this, a fraction of the capacity, are for the caller to read.
  static constexpr std::int64_t kFraction = 4;

  ReadRun(const Job& job, std::int64_t capacity_bytes) : job_(&job), capacity_(capacity_bytes) {}

  /// A new list of pieces; what at() gave is gone.
  void begin();
  /// The next piece of the list: a tile's part of a source tensor.
  void add(std::size_t tensor, const planner::SourcePart& part);
  /// Reads those pieces that are small and that fit together. Errors: those of a read.
  void read();
  /// The bytes of the i-th piece as read_part() lays them out; nothing where the caller has to read it, as every piece
  /// that was not added.
  std::optional<std::span<std::byte>> at(std::size_t i);

  std::int64_t peak_bytes() const { return memory_ == nullptr ? 0 : capacity_; }

 private:
  struct Piece {
    std::size_t file = 0;
    std::int64_t begin = 0;  ///< byte of the file
    std::int64_t bytes = 0;
    std::optional<std::int64_t> place;  ///< in the memory
  };

  const Job* job_;
  std::int64_t capacity_;
  std::int64_t wanted_bytes_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> taken_;  ///< numbers of pieces
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace reshard::pipeline
