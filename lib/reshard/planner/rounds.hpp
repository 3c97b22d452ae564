#pragma once
// The lockstep rounds of an exchange. Every process builds the same rounds from the same plan and does its own part of
// each: it reads the source parts that are its to read, sends what others write, and writes its regions. What a process
// holds in one round stays within the bound, on every process.
//
// Reading is shared by bytes: a source part goes to the process that writes most of it while that one has read less
// than its share, else to the one that has read least. Tiles are taken in turn from the processes' shares of the
// target, so that all of them write in every round.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reshard/base/process_rank.hpp"
#include "reshard/planner/target_map.hpp"
#include "reshard/planner/tensor_writers.hpp"
#include "reshard/planner/work.hpp"

namespace reshard::planner {

/// Every buffer begins at a multiple of this.
inline constexpr std::int64_t kBufferAlignment = 64;
/// Every packed box is followed by its digest's register, taken where the file was read.
inline constexpr std::int64_t kRegisterBytes = 8;

constexpr std::int64_t buffer_bytes(std::int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

struct RoundTile {
  TileId id;
  Tile tile;
  std::vector<ProcessRank> readers;               ///< by source part
  std::vector<std::vector<ProcessRank>> writers;  ///< by target part, ascending
};

class Rounds {
 public:
  /// Of the selected tensors. `bound_bytes`: what one process may hold in a round. Where a single tile needs more,
  /// next() throws kMemory.
  Rounds(std::span<const WorkTensor> tensors, const TargetMap& targets, int processes, std::int64_t bound_bytes,
         const Selection& selected = {});

  /// The next round, nothing after the last. Errors: kMemory as above, the first time a tile does not fit.
  std::optional<std::vector<RoundTile>> next();
  /// What every process holds in the round that next() gave last.
  const std::vector<std::int64_t>& held_bytes() const { return held_; }

 private:
  RoundTile assigned(TileId id, std::vector<std::int64_t>& read_bytes) const;
  std::vector<std::int64_t> bytes_of(const RoundTile& tile) const;
  std::optional<TileId> take();
  /// The next tile in turn goes to waiting_; whether there was one.
  bool wait_for_next();
  /// What the largest tile needs of the waiting one and all behind it; they are taken.
  std::int64_t largest_left();

  std::span<const WorkTensor> tensors_;
  std::vector<TensorWriters> writers_;  // by tensor
  int processes_;
  std::int64_t bound_bytes_;
  TileList tiles_;
  std::vector<std::vector<std::size_t>> queue_;  // by the process that writes a tile's first byte
  std::vector<std::size_t> taken_;               // by process: tiles taken of its queue
  std::vector<std::int64_t> taken_bytes_;
  std::vector<std::int64_t> read_bytes_;  // by process, so far
  std::int64_t share_bytes_ = 0;          // what a process may read of what it writes itself
  std::vector<std::int64_t> held_;        // by process, in the last round
  std::optional<RoundTile> waiting_;      // did not fit the last round
};

}  // namespace reshard::planner
