#pragma once
// Which rule a stored name belongs to. The first rule that matches wins; a group matches prefixes, its longest suffix
// first.

#include <cstddef>
#include <string>
#include <vector>

#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding.hpp"
#include "reshard/planner/binding_issues.hpp"
#include "reshard/planner/catalog.hpp"

namespace reshard::planner {

struct RuleMatch {
  std::size_t rule = kNoRule;
  std::size_t member = 0;  ///< of a group: index into Rule::source.members
  std::vector<std::string> captures;
};

bool is_group(const plan::Rule& rule);

/// Bytes at the end of a name that the rule's pattern does not see: "." and the member's suffix in a group, else none.
std::size_t suffix_bytes(const plan::Rule& rule, std::size_t member);

/// One match per catalog tensor, in catalog order. Cost: tensors x rules matches in the worst case.
std::vector<RuleMatch> match_rules(const plan::ParallelPlan& plan, const SourceCatalog& catalog);

/// Adds kRuleUnused for every rule that wins for no tensor and is not optional, with the rule that took its tensors or
/// the nearest names; kTensorUnmatched for every name without a rule where the plan says `unmatched: error`.
void check_matches(const plan::ParallelPlan& plan, const SourceCatalog& catalog, const std::vector<RuleMatch>& matches,
                   FoldedIssues& issues);

}  // namespace reshard::planner
