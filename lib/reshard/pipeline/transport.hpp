#pragma once
// How bytes get from reader to writer, and which way is chosen where the user leaves it open.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/process_rank.hpp"
#include "reshard/pipeline/direct.hpp"
#include "reshard/pipeline/exchanged.hpp"
#include "reshard/pipeline/machine.hpp"

namespace reshard::pipeline {

enum class Transport { kAuto, kDirect, kMpi, kNccl };

std::string_view name(Transport transport);

/// The transport of a run and what it will cost, by process.
struct TransportPlan {
  Transport transport = Transport::kDirect;  ///< kDirect where no tensor is exchanged; never kAuto
  std::string why;
  planner::Selection exchanged;                 ///< by tensor; the others are read directly, before
  std::vector<DirectCost> direct;               ///< of those that are
  ExchangeCost exchange;                        ///< of those that are exchanged
  std::vector<std::int64_t> peak_bytes;         ///< of staging memory, by process
  std::vector<std::int64_t> device_peak_bytes;  ///< of GPU memory, by process; empty where no GPU takes part

  std::int64_t bytes_read() const;
};

/// What was asked for, and with what.
struct TransportRequest {
  Transport asked = Transport::kAuto;
  Machine machine;
  int processes = 1;
  std::int64_t memory_bytes = 0;
  std::int64_t device_memory_bytes = 0;
  int threads = 1;
};

/// `auto` decides for each tensor by the model of move_costs.hpp: direct where every process reads little more than
/// once what the target needs; exchange where the cuts make processes read the same source rows over and over. It never
/// exchanges for one process, nor where the memory bound holds no round; between GPUs only where every process has one
/// and the model says that it is faster. Errors: kMemory where the bounds cannot hold the smallest tile, naming the
/// least that works.
TransportPlan choose_transport(const TransportRequest& request, const std::vector<planner::WorkTensor>& work,
                               const planner::TargetMap& targets);

}  // namespace reshard::pipeline
