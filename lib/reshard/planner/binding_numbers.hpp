#pragma once
// Numbers that an `owner` counts but no tensor has (plan format section 4).
//
// Tensors of a rule whose names differ in the owner's number alone are a group: `layers.3.experts.{0 to 7}.w1`. An
// expert that a group lacks is missing: on the axis `ep` each of those that `count` names, on another axis those that
// other groups of the rule have. Layers differ from each other (dense and mixture of experts, with and without a bias),
// so that a group of theirs may lack some. A number is a layer's on the axis `pp`, and on any axis but `ep` where it is
// the first number of the name.
//
// A number that no tensor of any rule has, though rules count it on an axis, is warned of: a layer may be lost, or not
// be for this plan. Where a source numbers locally the last numbers of each coordinate must be there: a count that is
// not the model's would give all tensors of later coordinates wrong numbers.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding_identity.hpp"
#include "reshard/planner/binding_issues.hpp"

namespace reshard::planner {

/// Adds kMissing for what is missing, of both sides' owners, and returns W_COUNT for what is warned of. Not missing are
/// a number that the rule's pattern does not match, a tensor that is there under another rule (`others`: names of the
/// source that are no identities), a member of a group of tensors that may be absent, and what only `optional` rules
/// count. Rules that have issues already are passed over: not all of their tensors have numbers. At most 2^17 names are
/// looked up.
std::vector<Warning> check_numbers(const plan::ParallelPlan& plan, const std::vector<Identity>& identities,
                                   const std::vector<std::string>& others, FoldedIssues& issues);

/// Which numbers of layers no tensor of a rule has: where tensors are on the wrong ranks, these tell why (files that
/// number from 0 on every rank lack the upper ones).
class MissingLayers {
 public:
  MissingLayers(const plan::ParallelPlan& plan, const std::vector<Identity>& identities)
      : plan_(&plan), identities_(&identities) {}

  /// "; on axis 'pp' no tensor has number 2 to 3 (of 0 to 3)", or nothing.
  const std::string& text(std::size_t rule);

 private:
  std::string text_of(std::size_t rule, const plan::OwnerRule& owner) const;

  const plan::ParallelPlan* plan_;
  const std::vector<Identity>* identities_;
  std::map<std::size_t, std::string> texts_;
};

}  // namespace reshard::planner
