#pragma once
// The sizes of an axis that a dim could be cut by: what a refusal offers instead.

#include <span>
#include <string>
#include <vector>

#include "reshard/layout/blocks.hpp"
#include "reshard/layout/cut.hpp"

namespace reshard::layout {

/// Axis sizes up to `limit` that a dim of `length` can be cut by at this level, so that no boundary cuts one of
/// `blocks`. O(limit^2 x segments) at worst, where every size is legal.
std::vector<Index> legal_axis_sizes(const Level& level, Index length, Index limit,
                                    std::span<const BlockNumbering> blocks = {});

/// "; legal sizes of 'tp': 1, 2, 4": at most 12 of those up to 1024. Empty where none is legal, and for a level that
/// tells its size itself (shares) or counts pieces of sequences.
std::string legal_sizes_text(const Level& level, Index length, std::span<const BlockNumbering> blocks);

}  // namespace reshard::layout
