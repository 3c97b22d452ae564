#pragma once
// A group: a weight and its companions, cut by one logical partition (plan format section 8). The partition is laid out
// once, in elements of the named dims; a `name/k` member holds the same partition in blocks of k elements.

#include <cstddef>
#include <string>
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
