#pragma once
// Names, shapes and ranks as messages show them: short, whatever the size of the model.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/layout/mesh.hpp"
#include "reshard/plan/plan.hpp"

namespace reshard::planner {

using layout::Index;

/// Where a rule stands: "plan.yaml:7", or "tensors[3]" for a plan without text; the plan's name for kNoRule.
std::string rule_place(const plan::ParallelPlan& plan, std::size_t rule);

/// "tensors[3]".
std::string rule_name(std::size_t rule);

/// "[4, 2]".
std::string shape_text(const Shape& shape);

/// Ascending numbers as "0 to 3, 8".
std::string number_list(std::span<const Index> numbers);

/// "rank 3", "ranks 0 to 3, 8".
std::string rank_list(std::span<const Index> ranks);

/// The name with every run of digits as `*`: tensors of different layers have one form.
std::string name_form(std::string_view name);

/// "'a', 'layers.*.w' (32 tensors)": names of one form are one entry, in order of first appearance.
std::string name_list(std::span<const std::string> names);

}  // namespace reshard::planner
