#pragma once
// Which tensors are bound together: the members of a group are one unit (plan format section 8), every other tensor is
// one of its own.

#include <cstddef>
#include <vector>

#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding_identity.hpp"
#include "reshard/planner/binding_issues.hpp"
#include "reshard/planner/binding_solver.hpp"

namespace reshard::planner {

/// Puts identities into units: each tensor of its own, or the members of a group that are there. Adds kGroupIncomplete
/// for a required member that is missing and for one that an earlier rule took; units of such groups are left out.
std::vector<Unit> assemble_units(const plan::ParallelPlan& plan, const SourceCatalog& catalog,
                                 const std::vector<RuleMatch>& matches, const std::vector<Identity>& identities,
                                 FoldedIssues& issues);

}  // namespace reshard::planner
