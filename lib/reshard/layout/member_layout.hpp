#pragma once
// One dim of a group member from the layout of the group's dim in elements.

#include "reshard/layout/blocks.hpp"
#include "reshard/layout/group.hpp"

namespace reshard::layout {

/// The numbering of a member's blocks on a dim.
BlockNumbering numbering(Index divisor, const GroupShape::Dim& dim, bool restarts);

/// `elements` in blocks of `divisor`; the same where divisor is 1. Errors: kUnitSplit (a boundary inside a block),
/// kMemberSize (a padded shard whose entries are not ceil(stored / divisor)).
DimLayout member_dim(const DimLayout& elements, Index divisor, const GroupShape::Dim& dim, bool restarts);

}  // namespace reshard::layout
