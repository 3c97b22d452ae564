#pragma once
// One layout for the page of a dry run (page_data.hpp).

#include <cstddef>
#include <string>

#include "reshard/pipeline/plan_summary.hpp"

namespace reshard::report {

/// The layout of a tensor as JSON: the name of the tensor whose transfers are listed; `source` and `target`, lists of
/// shards with ranks, stored shape and runs [global, stored, length] by dim; transfers [source rank, target rank,
/// begin, end, ...] in coordinates of the tensor. What is left out beyond some thousands is counted (`transfers_left`,
/// `shards` of `source_left` and `target_left`); `ranks` counts those that have the tensor.
std::string page_layout(const pipeline::PlanSummary& summary, std::size_t tensor);

}  // namespace reshard::report
