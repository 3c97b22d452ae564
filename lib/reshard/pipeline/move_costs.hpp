#pragma once
// What moving each tensor takes, by either way, and which way is the shorter one.
//
//   direct    every process reads what its regions of the target need: where cuts cross, the same bytes again and again
//   exchange  every byte is read once and sent to those that need it, in rounds that leave the cache
//
//   direct_seconds   = bytes read / read rate + reads x seconds per read / processes
//   exchange_seconds = bytes once / read rate + reads x seconds per read / processes
//                      + bytes once / (round rate x processes) + bytes sent / (wire rate x processes)
//
// One byte of the source, read by both of 2 processes from a disk, on one node: 2 / 2e9 = 1.0 ns against
// 1 / 2e9 + 1 / (2e9 x 2) + 0.5 / (4e9 x 2) = 0.81 ns: exchanged. The rates are round numbers of the order measured;
// only their ratios matter.
//
// Between GPUs a round costs the host its digests alone, but GPUs and NCCL have to be started:
//
//   gpu_exchange_seconds = kGpuStartSeconds + bytes once / read rate + reads x seconds per read / processes
//                          + bytes once / (GPU round rate x processes) + bytes sent / (wire rate x processes)
//
// These two figures were not measured: no GPU was there. They are on the careful side of what others report (start of
// CUDA and NCCL 1 to 4 s; digests at memory speed twice, copies to and from the GPU beside them).

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "reshard/base/process_rank.hpp"
#include "reshard/pipeline/estimate.hpp"
#include "reshard/pipeline/machine.hpp"
#include "reshard/planner/target_map.hpp"
#include "reshard/planner/tensor_writers.hpp"
#include "reshard/planner/work.hpp"

namespace reshard::pipeline {

/// From memory, each process. Disks and networks give kStorageBytesPerSecond to all together.
inline constexpr double kMemoryBytesPerSecond = 4e9;
/// Packing, unpacking and digests of a round, beyond what a tile in the cache takes; each process.
inline constexpr double kRoundBytesPerSecond = 2e9;
inline constexpr double kGpuRoundBytesPerSecond = 4e9;
inline constexpr double kGpuStartSeconds = 3.0;
/// Between processes of one node, each; between nodes it is kNetworkBytesPerSecond.
inline constexpr double kSharedMemoryBytesPerSecond = 4e9;

/// What one process reads of a tensor, without doing it.
struct DirectCost {
  std::int64_t bytes_read = 0;
  std::int64_t reads = 0;               ///< calls: a row is one where rows are read one by one
  std::int64_t least_memory_bytes = 0;  ///< with one thread: of the largest tile
};

struct MoveCost {
  std::map<ProcessRank, DirectCost> direct;  ///< by the processes that write some of it
  std::int64_t bytes_once = 0;
  std::int64_t reads_once = 0;
  std::int64_t bytes_sent = 0;  ///< by an exchange in which each piece is read where most of it is written
};

/// Seconds, all processes together, of one tensor.
double direct_seconds(const MoveCost& cost, const Machine& machine, int processes);
double exchange_seconds(const MoveCost& cost, const Machine& machine, int processes);
double gpu_exchange_seconds(const MoveCost& cost, const Machine& machine, int processes);

/// Costs of many tensors; those that are cut, read and written alike share one.
class MoveCosts {
 public:
  /// No file is touched.
  MoveCosts(const std::vector<planner::WorkTensor>& work, const planner::TargetMap& targets, int processes);

  const MoveCost& of(std::size_t tensor) const { return costs_[number_of_tensor_[tensor]]; }

 private:
  std::vector<MoveCost> costs_;
  std::vector<std::size_t> number_of_tensor_;
};

}  // namespace reshard::pipeline
