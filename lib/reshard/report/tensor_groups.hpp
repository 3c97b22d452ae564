#pragma once
// The tensors of a plan as few lines: what looks alike in rule, shape, dtypes, cuts and stored shapes, with names
// folded. Experts and layers that differ only in the rank that owns them are one group, although their layouts differ.

#include <string>
#include <vector>

#include "reshard/pipeline/plan_summary.hpp"
#include "reshard/report/fold_names.hpp"

namespace reshard::report {

struct TensorGroup {
  FoldedNames names;                         ///< members are indices into PlanSummary::tensors
  std::vector<std::string> source_patterns;  ///< where they are not the pattern of `names`
};

/// In order of the first member.
std::vector<TensorGroup> tensor_groups(const pipeline::PlanSummary& summary);

/// "bf16", "bf16 -> f32".
std::string dtypes_text(const pipeline::TensorSummary& tensor);
/// "on ep 4 -> 8", "dim 0 tp 2 -> 4"; "whole" where nothing is cut.
std::vector<std::string> cut_texts(const std::vector<pipeline::CutSummary>& cuts);
/// The same in one: "on ep 4 -> 8, dim 0 tp 2 -> 4".
std::string cuts_text(const std::vector<pipeline::CutSummary>& cuts);
/// "target pp=2", "source expert ep=4"
std::string copy_axis_text(const pipeline::CopyAxis& copy);

}  // namespace reshard::report
