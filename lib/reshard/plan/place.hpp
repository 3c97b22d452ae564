#pragma once
// The axis-first form of a placement (section 7), as PyTorch's DTensor says it: {tp: "shard(0)", dp: replicate}.

#include <string>
#include <vector>

#include "reshard/layout/cut.hpp"
#include "reshard/plan/dim.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {

/// The cut of one dim. `dim` is as written: an integer (negative from the end) or, in a group, a dim name.
struct DimRule {
  std::string dim;
  layout::DimCut cut;       ///< axis sizes bound to the side's mesh
  bool axis_first = false;  ///< of `place`: keys that turn out to be one dim (0 and -2 of a matrix) are levels of it
};

/// As dims with levels in mesh order. Reports kSchema, kPartial, kAxisUnknown, kStride. Dims are not checked here.
std::vector<DimRule> read_place(const Node& node, const AxisScope& scope, Faults& faults);

}  // namespace reshard::plan
