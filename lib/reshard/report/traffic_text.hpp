#pragma once
// Who sends how much to whom, as a matrix of lines.

#include <string>

#include "reshard/pipeline/plan_summary.hpp"

namespace reshard::report {

/// Up to 16 ranks a side are shown one by one, more in 8 blocks of ranks that follow each other.
std::string traffic_text(const pipeline::PlanSummary& summary);

}  // namespace reshard::report
