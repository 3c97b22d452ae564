#pragma once
// The direct transport: every process reads what its regions of the target need from the shared file system. No byte
// goes between processes. Threads take tiles from one list; each tile is read, digested, moved, digested and written by
// one thread while it is in its cache.

#include "reshard/pipeline/job.hpp"

namespace reshard::pipeline {

/// What direct does, without doing it.
struct DirectCost {
  std::int64_t bytes_read = 0;
  std::int64_t least_memory_bytes = 0;  ///< with one thread: of the largest tile
};

/// How a process divides its memory among its threads.
struct DirectMemory {
  int threads = 1;
  std::int64_t arena_bytes = 0;  ///< of each: for the largest tile
  std::int64_t run_bytes = 0;    ///< of each: for small pieces that are written together

  std::int64_t peak_bytes() const { return threads * (arena_bytes + run_bytes); }
};

/// `memory_bytes` hold the largest tile. No more than `threads` threads.
DirectMemory direct_memory(const DirectCost& cost, std::int64_t memory_bytes, int threads);

/// Cost of every process's part. No file is touched. Tensors that are cut, read and written alike are counted once.
std::vector<DirectCost> direct_costs(const std::vector<planner::WorkTensor>& work, const planner::TargetMap& targets,
                                     int processes);

/// Moves this process's part. Not collective: another process's failure is noticed between tiles
/// (Communicator::alarm_raised) and ends this one early; the caller agrees afterwards. `cost` is this process's.
/// Returns the peak of staging memory. Errors: kIo, kFormat, kDigest, kInterrupted, kMemory.
std::int64_t run_direct(const Job& job, const DirectCost& cost);

}  // namespace reshard::pipeline
