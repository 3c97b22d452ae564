#include "reshard/pipeline/move_costs.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <tuple>

#include "reshard/pipeline/direct.hpp"
#include "reshard/pipeline/job.hpp"

namespace reshard::pipeline {
namespace {

using planner::Tile;
using planner::WorkTensor;

double read_rate(const Machine& machine, int processes) {
  return machine.storage == Storage::kMemory ? kMemoryBytesPerSecond * processes : kStorageBytesPerSecond;
}

double seconds_per_read(Storage storage) {
  switch (storage) {
    case Storage::kMemory:
      return 1e-6;
    case Storage::kDisk:
      return 2e-5;
    case Storage::kNetwork:
      return 5e-4;
  }
  return 0;
}

double read_seconds(std::int64_t bytes, std::int64_t reads, const Machine& machine, int processes) {
  return static_cast<double>(bytes) / read_rate(machine, processes) +
         static_cast<double>(reads) * seconds_per_read(machine.storage) / processes;
}

/// The processes that write some of a tile, ascending.
std::vector<ProcessRank> united(const std::vector<std::vector<ProcessRank>>& writers) {
  std::vector<ProcessRank> out;
  for (const std::vector<ProcessRank>& of_part : writers) out.insert(out.end(), of_part.begin(), of_part.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// What leaves the process that reads a source part, if that is the one that writes most of it. `all`: of `writers`.
std::int64_t bytes_sent(const Tile& tile, const std::vector<std::vector<ProcessRank>>& writers,
                        const std::vector<ProcessRank>& all, std::int64_t element_bytes) {
  if (all.size() == 1) return 0;
  std::vector<planner::Index> wanted(tile.sources.size() * all.size(), 0);  // elements by source and writer
  for (const layout::CopyBox& box : tile.copies)
    for (const ProcessRank writer : writers[box.target]) {
      const auto place = std::lower_bound(all.begin(), all.end(), writer) - all.begin();
      wanted[box.source * all.size() + static_cast<std::size_t>(place)] += box.elements();
    }
  planner::Index out = 0;
  for (auto of_part = wanted.begin(); of_part != wanted.end(); of_part += std::ssize(all)) {
    const auto end = of_part + std::ssize(all);
    out += std::accumulate(of_part, end, planner::Index{0}) - *std::max_element(of_part, end);
  }
  return out * element_bytes;
}

MoveCost cost_of(const WorkTensor& work, const planner::TensorWriters& tensor_writers, int processes) {
  MoveCost out;
  std::vector<bool> wanted;
  for (std::size_t number = 0; number < work.tiling->size(); ++number) {
    const Tile tile = work.tiling->tile(number, work.sources);
    const std::vector<std::vector<ProcessRank>> writers = tensor_writers.of(tile);
    const std::vector<ProcessRank> all = united(writers);
    for (const ProcessRank writer : all) {
      wanted.clear();
      for (std::size_t t = 0; t < writers.size() && processes > 1; ++t)
        wanted.push_back(std::binary_search(writers[t].begin(), writers[t].end(), writer));
      const DirectCost of_tile = tile_cost(tile, wanted, work);
      DirectCost& cost = out.direct[writer];
      cost.bytes_read += of_tile.bytes_read;
      cost.reads += of_tile.reads;
      cost.least_memory_bytes = std::max(cost.least_memory_bytes, of_tile.least_memory_bytes);
    }
    for (const planner::SourcePart& part : tile.sources) {
      out.bytes_once += read_bytes(part, work.source_element_bytes);
      out.reads_once += reads(part, work.source_element_bytes);
    }
    if (processes > 1) out.bytes_sent += bytes_sent(tile, writers, all, work.target_element_bytes);
  }
  return out;
}

double exchange_seconds(const MoveCost& cost, const Machine& machine, int processes, double round_rate) {
  const double wire = machine.nodes == 1 ? kSharedMemoryBytesPerSecond : kNetworkBytesPerSecond;
  return read_seconds(cost.bytes_once, cost.reads_once, machine, processes) +
         static_cast<double>(cost.bytes_once) / (round_rate * processes) +
         static_cast<double>(cost.bytes_sent) / (wire * processes);
}

}  // namespace

double direct_seconds(const MoveCost& cost, const Machine& machine, int processes) {
  std::int64_t bytes = 0;
  std::int64_t reads = 0;
  for (const auto& [process, of_process] : cost.direct) {
    bytes += of_process.bytes_read;
    reads += of_process.reads;
  }
  return read_seconds(bytes, reads, machine, processes);
}

double exchange_seconds(const MoveCost& cost, const Machine& machine, int processes) {
  return exchange_seconds(cost, machine, processes, kRoundBytesPerSecond);
}

double gpu_exchange_seconds(const MoveCost& cost, const Machine& machine, int processes) {
  return kGpuStartSeconds + exchange_seconds(cost, machine, processes, kGpuRoundBytesPerSecond);
}

MoveCosts::MoveCosts(const std::vector<WorkTensor>& work, const planner::TargetMap& targets, int processes) {
  // What a tensor costs follows from its tiling, its elements, the ranks it is read from and, where every shard is
  // written by one process, from who that is.
  std::map<std::tuple<const planner::Tiling*, std::int64_t, std::int64_t, bool, std::vector<planner::Index>,
                      std::vector<std::vector<ProcessRank>>>,
           std::size_t>
      known;
  number_of_tensor_.reserve(work.size());
  for (std::size_t t = 0; t < work.size(); ++t) {
    // One process alone writes everything.
    std::optional<planner::TensorWriters> writers;
    if (processes > 1) writers.emplace(work[t], t, targets);
    std::size_t number = costs_.size();
    if (!writers || writers->one_for_each_file())
      number = known
                   .try_emplace(
                       {work[t].tiling, work[t].source_element_bytes, work[t].target_element_bytes, work[t].converts(),
                        work[t].sources, writers ? writers->settled() : std::vector<std::vector<ProcessRank>>()},
                       number)
                   .first->second;
    if (number == costs_.size())
      costs_.push_back(cost_of(work[t], writers ? *writers : planner::TensorWriters(work[t], t, targets), processes));
    number_of_tensor_.push_back(number);
  }
}

}  // namespace reshard::pipeline
