#pragma once
// The direct transport: every process reads what its regions of the target need from the shared file system. No byte
// goes between processes. Threads take tiles from one list; each tile is read, digested, moved, digested and written by
// one thread while it is in its cache.

#include <vector>

#include "reshard/pipeline/job.hpp"
#include "reshard/pipeline/move_costs.hpp"

namespace reshard::pipeline {

/// How a process divides its memory among its threads.
struct DirectMemory {
  int threads = 1;
  std::int64_t arena_bytes = 0;  ///< of each: for the largest tile
  std::int64_t run_bytes = 0;    ///< of each, twice: for small pieces that are read or written together

  std::int64_t peak_bytes() const { return threads * (arena_bytes + 2 * run_bytes); }
};

/// `memory_bytes` hold the largest tile. No more than `threads` threads.
DirectMemory direct_memory(const DirectCost& cost, std::int64_t memory_bytes, int threads);

/// What a process takes that writes the wanted targets of a tile, in one thread. `wanted` empty: of one process alone,
/// which moves tiles as they are.
DirectCost tile_cost(const planner::Tile& tile, const std::vector<bool>& wanted, const planner::WorkTensor& work);

/// Moves this process's part of the selected tensors. Not collective: another process's failure is noticed between
/// tiles (Communicator::alarm_raised) and ends this one early; the caller agrees afterwards. `cost` is this process's.
/// Returns the peak of staging memory. Errors: kIo, kFormat, kDigest, kInterrupted, kMemory.
std::int64_t run_direct(const Job& job, const DirectCost& cost, const planner::Selection& tensors);

}  // namespace reshard::pipeline
