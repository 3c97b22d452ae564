#pragma once
// The parts that random plans are made of.

#include <optional>
#include <string>
#include <vector>

#include "support/plan_cases.hpp"

namespace reshard::plan_cases {

using layout::DimCut;
using random_layouts::Random;

/// The padding values that cases are drawn with, 1 and 2, as elements.
std::vector<std::byte> pad_element(Dtype dtype, int value);

/// The axes that a placement is drawn from.
const std::vector<layout::Axis>& axes_of(const SideSpec& side, bool expert);

std::optional<layout::Axis> find_axis(const std::vector<layout::Axis>& axes, const std::string& name);

Index coordinate(const std::vector<layout::Axis>& axes, Index position, const std::string& name);

/// The lines of a cut by rank; nothing where it is refused.
std::optional<std::vector<naive::Line>> lines_of(const DimCut& cut, Index length, const SideSpec& side,
                                                 const std::vector<layout::Axis>& axes);

/// Whether the stored lengths alone tell the true one.
bool is_inferred(const DimCut& cut, Index length);

}  // namespace reshard::plan_cases
