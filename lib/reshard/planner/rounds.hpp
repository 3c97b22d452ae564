#pragma once
// The lockstep rounds of an exchange. Every process builds the same rounds from the same plan and does its own part of
// each: it reads the source parts that are its to read, sends what others write, and writes its regions. What a process
// holds in one round stays within the bound, on every process.
//
// Bytes are exchanged from host memory, or between GPUs: then the host holds what is read and what is written, and the
// device that and the messages.
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

/// The same of rounds between GPUs.
inline constexpr std::int64_t kDeviceBufferAlignment = 256;

constexpr std::int64_t device_buffer_bytes(std::int64_t bytes) {
  return (bytes + kDeviceBufferAlignment - 1) / kDeviceBufferAlignment * kDeviceBufferAlignment;
}

/// A GPU is told by a table what to copy: an entry for a box of at most kTaskDims dims, more for others. The tables of
/// a round have at most kRoundTasks entries, unless a single tile has more.
inline constexpr std::size_t kTaskDims = 5;
inline constexpr std::int64_t kRoundTasks = std::int64_t{1} << 15;

/// What a process may hold, in all rounds that are in flight at a time; each of them has an equal share.
struct RoundBound {
  std::int64_t host_bytes = 0;
  /// Of GPU memory; nothing: bytes are exchanged from host memory.
  std::optional<std::int64_t> device_bytes = {};
  int in_flight = 1;

  friend bool operator==(const RoundBound&, const RoundBound&) = default;
};

/// What a process holds in a round.
struct RoundMemory {
  std::int64_t host_bytes = 0;
  std::int64_t device_bytes = 0;
  std::int64_t tasks = 0;  ///< entries of the GPU's table, which lies beside these bytes

  friend bool operator==(const RoundMemory&, const RoundMemory&) = default;
};

struct RoundTile {
  TileId id;
  Tile tile;
  std::vector<ProcessRank> readers;               ///< by source part
  std::vector<std::vector<ProcessRank>> writers;  ///< by target part, ascending
};

class Rounds {
 public:
  /// Of the selected tensors. Where a single tile needs more than the bound, next() throws kMemory.
  Rounds(std::span<const WorkTensor> tensors, const TargetMap& targets, int processes, RoundBound bound,
         const Selection& selected = {});

  /// The next round, nothing after the last. Errors: kMemory as above, the first time a tile does not fit.
  std::optional<std::vector<RoundTile>> next();
  /// What every process holds in the round that next() gave last.
  const std::vector<RoundMemory>& held() const { return held_; }

 private:
  RoundTile assigned(TileId id, std::vector<std::int64_t>& read_bytes) const;
  std::vector<RoundMemory> memory_of(const RoundTile& tile) const;
  void add_host_copies(const RoundTile& tile, std::vector<RoundMemory>& held) const;
  void add_device_copies(const RoundTile& tile, std::vector<RoundMemory>& held) const;
  bool fits(const std::vector<RoundMemory>& held) const;
  std::optional<TileId> take();
  /// The next tile in turn goes to waiting_; whether there was one.
  bool wait_for_next();
  /// What the largest tiles need of the waiting one and all behind it; they are taken.
  [[noreturn]] void refuse_bound();

  std::span<const WorkTensor> tensors_;
  std::vector<TensorWriters> writers_;  // by tensor
  int processes_;
  RoundBound bound_;
  TileList tiles_;
  std::vector<std::vector<std::size_t>> queue_;  // by the process that writes a tile's first byte
  std::vector<std::size_t> taken_;               // by process: tiles taken of its queue
  std::vector<std::int64_t> taken_bytes_;
  std::vector<std::int64_t> read_bytes_;  // by process, so far
  std::int64_t share_bytes_ = 0;          // what a process may read of what it writes itself
  std::vector<RoundMemory> held_;         // by process, in the last round
  std::optional<RoundTile> waiting_;      // did not fit the last round
};

}  // namespace reshard::planner
