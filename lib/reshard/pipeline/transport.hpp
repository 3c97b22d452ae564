#pragma once
// How bytes get from reader to writer, and which way is chosen where the user leaves it open.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/process_rank.hpp"
#include "reshard/pipeline/direct.hpp"
#include "reshard/pipeline/exchanged.hpp"

namespace reshard::pipeline {

enum class Transport { kAuto, kDirect, kMpi };

std::string_view name(Transport transport);

/// The transport of a run and what it will cost, by process.
struct TransportPlan {
  Transport transport = Transport::kDirect;  ///< kDirect where no tensor is exchanged, else kMpi; never kAuto
  std::string why;
  planner::Selection exchanged;          ///< by tensor; the others are read directly, before
  std::vector<DirectCost> direct;        ///< of those that are
  ExchangeCost exchange;                 ///< of those that are exchanged
  std::vector<std::int64_t> peak_bytes;  ///< of staging memory, by process

  std::int64_t bytes_read() const;
};

/// `auto` decides for each tensor by the model of move_costs.hpp: direct where every process reads little more than
/// once what the target needs; exchange where the cuts make processes read the same source rows over and over. It never
/// exchanges for one process, nor where the memory bound holds no round. Errors: kMemory where `memory_bytes` cannot
/// hold the smallest tile, naming the least that works.
TransportPlan choose_transport(Transport asked, const std::vector<planner::WorkTensor>& work,
                               const planner::TargetMap& targets, const Machine& machine, int processes,
                               std::int64_t memory_bytes, int threads);

}  // namespace reshard::pipeline
