#pragma once
// What a rank would hold by the plan: told where its file is missing.

#include <string>

#include "reshard/plan/plan.hpp"
#include "reshard/planner/catalog.hpp"

namespace reshard::planner {

/// "'experts.*.fc2' (tensors[0]) with $1 = 2 to 3 of axis ep, elements 4 to 7 of dim 1": one part for each rule of the
/// plan that has tensors in `others`, what the other ranks store, or whose tensors no other rank has. Elements are told
/// where the others' shapes tell the true size of a dim, else that there are some.
std::string holding_text(const plan::ParallelPlan& plan, Index rank, const SourceCatalog& others);

}  // namespace reshard::planner
