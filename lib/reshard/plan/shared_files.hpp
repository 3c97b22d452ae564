#pragma once
// Ranks may have their tensors in one file only as replicas of each other (section 3): a file holds one shard of a
// tensor. Here: what the plan's own words tell of it.

#include <vector>

#include "reshard/plan/faults.hpp"
#include "reshard/plan/rule.hpp"
#include "reshard/plan/side.hpp"

namespace reshard::plan {

/// Reports kSchema at `files` for every axis that a rule cuts by, or owns by, and that `files` of the side does not
/// tell apart. Rules that may match nothing, and cuts that may fall back, are judged with the checkpoint at hand.
/// `side_node`: the side's map; `placement`: that of the side.
void check_shared_files(const Side& side, const std::vector<Rule>& rules, Placement Rule::*placement,
                        const Node& side_node, Faults& faults);

}  // namespace reshard::plan
