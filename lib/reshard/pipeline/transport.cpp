#include "reshard/pipeline/transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "reshard/base/error.hpp"
#include "reshard/pipeline/gpu_exchanged.hpp"
#include "reshard/planner/rounds.hpp"

namespace reshard::pipeline {
namespace {

[[noreturn]] void refuse_memory(std::int64_t needed_bytes, std::int64_t memory_bytes) {
  throw Error(Issue{ErrorCode::kMemory, "", kNoTensor,
                    fmt::format("--memory {} is too small to make progress: at least {} bytes are needed", memory_bytes,
                                needed_bytes)});
}

/// With which every tensor can be read directly: what `auto` falls back to.
std::int64_t least_memory_bytes(std::size_t tensors, const MoveCosts& costs) {
  std::int64_t out = 0;
  for (std::size_t t = 0; t < tensors; ++t)
    for (const auto& [process, cost] : costs.of(t).direct)
      out = std::max(out, planner::buffer_bytes(cost.least_memory_bytes));
  return out;
}

/// Bytes that the processes read directly, and those that the target needs: each once, however many ranks of either
/// side hold it.
struct Amplification {
  std::int64_t read = 0;
  std::int64_t needed = 0;
  std::size_t tensors = 0;

  void add(const MoveCost& cost, const planner::WorkTensor& work) {
    for (const auto& [process, of_process] : cost.direct) read += of_process.bytes_read;
    needed += work.tiling->tensor_elements() * work.source_element_bytes;
    ++tensors;
  }
  double times() const { return needed == 0 ? 1.0 : static_cast<double>(read) / static_cast<double>(needed); }
};

std::string where(const Machine& machine) {
  return fmt::format("{}{}", name(machine.storage),
                     machine.nodes > 1 ? fmt::format(" and {} nodes", machine.nodes) : std::string());
}

/// What `auto` found: how often direct would read what the target needs, of the tensors that are exchanged and of the
/// others.
std::string reason(const Amplification& direct, const Amplification& exchanged, const Machine& machine) {
  if (exchanged.tensors == 0)
    return fmt::format(
        "the processes read {:.2f} bytes for each one that the target needs, which is cheaper than sending them on",
        direct.times());
  if (direct.tensors == 0)
    return fmt::format("direct would read {:.2f} bytes for each one that the target needs", exchanged.times());
  return fmt::format(
      "{} of {} tensors, of which direct would read {:.2f} bytes for each one that the target needs, too many for {}; "
      "the others are read directly, {:.2f} bytes for each one",
      exchanged.tensors, exchanged.tensors + direct.tensors, exchanged.times(), where(machine), direct.times());
}

/// Whether GPUs take part, and what `auto` says of them; empty where there are none to speak of.
std::string judge_gpus(const MoveCost& exchanged, const TransportRequest& request, Transport& transport) {
  if (!request.machine.gpus) return "";
  const double host = exchange_seconds(exchanged, request.machine, request.processes);
  const double gpu = gpu_exchange_seconds(exchanged, request.machine, request.processes);
  if (gpu < host) transport = Transport::kNccl;
  return fmt::format("; between GPUs ({}) an estimated {:.1f} s, from host memory {:.1f} s", *request.machine.gpus, gpu,
                     host);
}

/// Decides for every tensor and sums up what the direct ones cost.
void decide(const TransportRequest& request, const std::vector<planner::WorkTensor>& work, const MoveCosts& costs,
            TransportPlan& out) {
  const Machine& machine = request.machine;
  const int processes = request.processes;
  Amplification direct;
  Amplification exchanged;
  MoveCost all_exchanged;
  out.exchanged.assign(work.size(), false);
  out.direct.assign(static_cast<std::size_t>(processes), {});
  for (std::size_t t = 0; t < work.size(); ++t) {
    const MoveCost& cost = costs.of(t);
    if (request.asked == Transport::kAuto && processes > 1 &&
        exchange_seconds(cost, machine, processes) < direct_seconds(cost, machine, processes)) {
      out.exchanged[t] = true;
      exchanged.add(cost, work[t]);
      all_exchanged.bytes_once += cost.bytes_once;
      all_exchanged.reads_once += cost.reads_once;
      all_exchanged.bytes_sent += cost.bytes_sent;
      continue;
    }
    direct.add(cost, work[t]);
    for (const auto& [process, of_process] : cost.direct) {
      DirectCost& sum = out.direct[static_cast<std::size_t>(process)];
      sum.bytes_read += of_process.bytes_read;
      sum.reads += of_process.reads;
      sum.least_memory_bytes = std::max(sum.least_memory_bytes, of_process.least_memory_bytes);
    }
  }
  out.transport = exchanged.tensors == 0 ? Transport::kDirect : Transport::kMpi;
  if (request.asked != Transport::kAuto) return;
  out.why = processes == 1 ? "one process: nothing to exchange" : reason(direct, exchanged, machine);
  if (exchanged.tensors > 0) out.why += judge_gpus(all_exchanged, request, out.transport);
}

}  // namespace

std::string_view name(Transport transport) {
  switch (transport) {
    case Transport::kAuto:
      return "auto";
    case Transport::kDirect:
      return "direct";
    case Transport::kMpi:
      return "mpi";
    case Transport::kNccl:
      return "nccl";
  }
  internal_error("a transport without a name");
}

std::int64_t TransportPlan::bytes_read() const {
  std::int64_t out = std::accumulate(exchange.bytes_read.begin(), exchange.bytes_read.end(), std::int64_t{0});
  for (const DirectCost& cost : direct) out += cost.bytes_read;
  return out;
}

TransportPlan choose_transport(const TransportRequest& request, const std::vector<planner::WorkTensor>& work,
                               const planner::TargetMap& targets) {
  const Transport asked = request.asked;
  const std::int64_t memory_bytes = request.memory_bytes;
  TransportPlan out;
  out.transport = asked;
  out.why = "asked for";
  if (asked == Transport::kNccl && request.machine.gpus) out.why += fmt::format("; {}", *request.machine.gpus);
  out.peak_bytes.assign(static_cast<std::size_t>(request.processes), 0);
  if (asked == Transport::kMpi || asked == Transport::kNccl) {
    out.exchanged.assign(work.size(), true);
  } else {
    const MoveCosts costs(work, targets, request.processes);
    decide(request, work, costs, out);
    for (std::size_t p = 0; p < out.direct.size(); ++p) {
      const DirectCost& cost = out.direct[p];
      if (cost.least_memory_bytes == 0) continue;
      if (planner::buffer_bytes(cost.least_memory_bytes) > memory_bytes)
        refuse_memory(least_memory_bytes(work.size(), costs), memory_bytes);
      out.peak_bytes[p] = direct_memory(cost, memory_bytes, request.threads).peak_bytes();
    }
  }
  if (out.transport == Transport::kDirect) return out;
  const planner::RoundBound bound = out.transport == Transport::kNccl
                                        ? gpu_round_bound(memory_bytes, request.device_memory_bytes)
                                        : planner::RoundBound{std::min(memory_bytes, kRoundBytes)};
  try {
    out.exchange = exchange_cost(work, targets, request.processes, bound, out.exchanged);
  } catch (const Error& error) {
    if (asked != Transport::kAuto || error.exit() != Exit::kMemory) throw;
    // Host memory holds rounds that a GPU's do not; what is read directly needs least.
    TransportRequest other = request;
    if (out.transport == Transport::kNccl) {
      other.machine.gpus.reset();
    } else {
      other.asked = Transport::kDirect;
    }
    TransportPlan plan = choose_transport(other, work, targets);
    if (out.transport == Transport::kMpi) plan.why = "the memory bound does not hold the rounds of an exchange";
    return plan;
  }
  for (std::size_t p = 0; p < out.peak_bytes.size(); ++p)
    out.peak_bytes[p] = std::max(out.peak_bytes[p], out.exchange.peak[p].host_bytes * bound.in_flight);
  if (out.transport == Transport::kNccl)
    for (const planner::RoundMemory& peak : out.exchange.peak)
      out.device_peak_bytes.push_back(peak.device_bytes * bound.in_flight);
  return out;
}

}  // namespace reshard::pipeline
