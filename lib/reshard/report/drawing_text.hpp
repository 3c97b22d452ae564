#pragma once
// How both sides cut a tensor, drawn with characters, and the rectangles that move.

#include <string>
#include <vector>

#include "reshard/pipeline/plan_summary.hpp"
#include "reshard/report/tensor_groups.hpp"

namespace reshard::report {

/// The first tensor of each of the first groups. The summary has shards and transfers. Not to scale: pieces of a dim
/// are as wide as what is written in them, and where many lie in a row those in the middle are left out.
std::string drawings_text(const pipeline::PlanSummary& summary, const std::vector<TensorGroup>& groups);

}  // namespace reshard::report
