#pragma once
// Plans and their parts as values again, with every default resolved: what the plan digest is taken of and what a
// manifest writes down. read_placement and read_dim read the parts back.

#include "reshard/base/value.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"
#include "reshard/plan/owner.hpp"
#include "reshard/plan/placement.hpp"

namespace reshard::plan {

struct ParallelPlan;

/// ["dp=2", "tp=4"].
Value axes_value(const layout::Mesh& mesh);

/// {"axes": ["tp", "gtp"], "segments": [8, 8], "pad_to": 16}: options of the first axis and padding of the last beside
/// `axes`, those of others in the long form. What is at its default is left out.
Value dim_value(const layout::DimCut& cut);

/// {"index": 3, "count": 32}; "$1" for a capture.
Value owner_value(const OwnerRule& owner);

/// {"shard": {"0": {"axes": ["tp"]}}, "view": "expert"}: what is at its default is left out.
Value placement_value(const Placement& placement);

/// The whole plan without paths and positions.
Value canonical_value(const ParallelPlan& plan);

}  // namespace reshard::plan
