#include "reshard/report/traffic_blocks.hpp"

#include <algorithm>

namespace reshard::report {

using planner::Index;

std::int64_t TrafficBlocks::most() const {
  std::int64_t out = 0;
  for (const std::vector<std::int64_t>& row : bytes)
    for (const std::int64_t cell : row) out = std::max(out, cell);
  return out;
}

TrafficBlocks traffic_blocks(const pipeline::PlanSummary& summary, Index limit) {
  const Index sources = summary.header.source.ranks;
  const Index targets = summary.header.target.ranks;
  TrafficBlocks out;
  out.sources_per_row = (sources + limit - 1) / limit;
  out.targets_per_column = (targets + limit - 1) / limit;
  const auto rows = static_cast<std::size_t>((sources + out.sources_per_row - 1) / out.sources_per_row);
  const auto columns = static_cast<std::size_t>((targets + out.targets_per_column - 1) / out.targets_per_column);
  out.bytes.assign(rows, std::vector<std::int64_t>(columns, 0));
  for (const pipeline::TrafficEntry& entry : summary.traffic)
    out.bytes[static_cast<std::size_t>(entry.source_rank / out.sources_per_row)]
             [static_cast<std::size_t>(entry.target_rank / out.targets_per_column)] += entry.bytes;
  return out;
}

}  // namespace reshard::report
