#include "reshard/pipeline/transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "reshard/base/error.hpp"
#include "reshard/planner/rounds.hpp"

namespace reshard::pipeline {
namespace {

/// Reading this much more than once still beats sending it through two more buffers.
constexpr double kDirectAmplification = 1.5;

void refuse_memory(std::int64_t memory_bytes, std::int64_t needed_bytes) {
  throw Error(Issue{ErrorCode::kMemory, "", "",
                    fmt::format("--memory {} is too small to make progress: at least {} bytes are needed", memory_bytes,
                                needed_bytes)});
}

/// Of the source, what the target needs: each byte once, however many ranks of either side hold it.
std::int64_t true_bytes(const std::vector<planner::WorkTensor>& work) {
  std::int64_t out = 0;
  for (const planner::WorkTensor& tensor : work) out += tensor.tiling->tensor_elements() * tensor.source_element_bytes;
  return out;
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
  }
  internal_error("a transport without a name");
}

std::int64_t TransportPlan::bytes_read() const {
  std::int64_t out = std::accumulate(exchange.bytes_read.begin(), exchange.bytes_read.end(), std::int64_t{0});
  for (const DirectCost& cost : direct) out += cost.bytes_read;
  return out;
}

TransportPlan choose_transport(Transport asked, const std::vector<planner::WorkTensor>& work,
                               const planner::TargetMap& targets, int processes, std::int64_t memory_bytes,
                               int threads) {
  TransportPlan out;
  out.transport = asked;
  out.why = "asked for";
  if (asked != Transport::kMpi) {
    std::int64_t needed = 0;
    out.direct = direct_costs(work, targets, processes);
    for (const DirectCost& cost : out.direct) needed = std::max(needed, planner::buffer_bytes(cost.least_memory_bytes));
    const std::int64_t read = out.bytes_read();
    const std::int64_t once = true_bytes(work);
    const double times = once == 0 ? 1.0 : static_cast<double>(read) / static_cast<double>(once);
    if (asked == Transport::kAuto) {
      if (processes == 1) {
        out.transport = Transport::kDirect;
        out.why = "one process: nothing to exchange";
      } else if (times <= kDirectAmplification) {
        out.transport = Transport::kDirect;
        out.why = fmt::format(
            "the processes read {:.2f} bytes for each one that the target needs, which is cheaper than sending them on",
            times);
      } else {
        out.transport = Transport::kMpi;
        out.why = fmt::format("direct would read {:.2f} bytes for each one that the target needs", times);
        out.direct.clear();
      }
    }
    if (out.transport == Transport::kDirect) {
      if (needed > memory_bytes) refuse_memory(memory_bytes, needed);
      for (const DirectCost& cost : out.direct)
        out.peak_bytes.push_back(
            cost.least_memory_bytes == 0 ? 0 : direct_memory(cost, memory_bytes, threads).peak_bytes());
      return out;
    }
  }
  out.exchange = exchange_cost(work, targets, processes, std::min(memory_bytes, kRoundBytes));
  out.peak_bytes = out.exchange.peak_bytes;
  return out;
}

}  // namespace reshard::pipeline
