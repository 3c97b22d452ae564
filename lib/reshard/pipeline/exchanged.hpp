#pragma once
// The exchange between processes: every true source byte is read by one process, packed, sent to those that write it,
// unpacked and written, in lockstep rounds (planner/rounds.hpp).

#include <vector>

#include "reshard/pipeline/job.hpp"
#include "reshard/pipeline/round_history.hpp"
#include "reshard/planner/rounds.hpp"

namespace reshard::pipeline {

/// What the rounds do, without doing it. By process.
struct ExchangeCost {
  planner::RoundBound bound;
  std::vector<std::int64_t> bytes_read;
  std::vector<planner::RoundMemory> peak;  ///< of one round
  std::int64_t bytes_exchanged = 0;        ///< tensor bytes that leave a process
  std::int64_t rounds = 0;
  RoundHistory held;  ///< host memory, of all rounds in flight
};

/// Of the selected tensors. Errors: kMemory where the bound is too small for a tile, naming the least that works.
ExchangeCost exchange_cost(const std::vector<planner::WorkTensor>& work, const planner::TargetMap& targets,
                           int processes, planner::RoundBound bound, const planner::Selection& tensors);

/// What one process holds in a round at most: beyond this, larger rounds gain nothing.
inline constexpr std::int64_t kRoundBytes = std::int64_t{64} << 20;

/// Moves the selected tensors through host memory. Collective; an error of one process inside a round ends all after
/// that round, with the same error. Returns the peak of this process's staging memory. Errors: kIo, kFormat, kDigest,
/// kInterrupted, kTransport.
std::int64_t run_exchanged(const Job& job, const ExchangeCost& cost, const planner::Selection& tensors);

}  // namespace reshard::pipeline
