#pragma once
// One dim of a group member from the layout of the group's dim in elements.

#include <string>

#include "reshard/layout/blocks.hpp"
#include "reshard/layout/group.hpp"

namespace reshard::layout {

/// The numbering of a member's blocks on a dim.
BlockNumbering numbering(Index divisor, const GroupShape::Dim& dim, bool restarts);

/// `elements` in blocks of `divisor`; the same where divisor is 1. Errors: kUnitSplit (a boundary inside a block),
/// kMemberSize (a padded shard whose entries are not ceil(stored / divisor)).
DimLayout member_dim(const DimLayout& elements, Index divisor, const GroupShape::Dim& dim, bool restarts);

/// "; legal sizes of 'tp': 1, 2" for a dim cut by one axis whose boundaries must not cut blocks; else empty.
std::string legal_sizes_text(const DimCut& cut, Index length, Index divisor);

}  // namespace reshard::layout
