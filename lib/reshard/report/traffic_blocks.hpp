#pragma once
// The traffic between ranks as a matrix that a person can look at: ranks that follow each other share a row or column
// where there are many.

#include <cstdint>
#include <vector>

#include "reshard/pipeline/plan_summary.hpp"

namespace reshard::report {

struct TrafficBlocks {
  planner::Index sources_per_row = 1;  ///< the last row may have fewer
  planner::Index targets_per_column = 1;
  std::vector<std::vector<std::int64_t>> bytes;  ///< by row, then column

  std::int64_t most() const;
};

/// At most `limit` rows and columns.
TrafficBlocks traffic_blocks(const pipeline::PlanSummary& summary, planner::Index limit);

}  // namespace reshard::report
