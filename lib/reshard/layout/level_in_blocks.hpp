#pragma once
// One level of a group's dim said for a member that has one entry per block of k elements: which level of blocks takes
// from a line of blocks what the group's level takes from the same line of elements.

#include <span>
#include <vector>

#include "reshard/layout/blocks.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/line.hpp"

namespace reshard::layout {

/// A line that reaches a level.
struct BlockedLine {
  Line elements;
  Line blocks;
};

/// Levels of blocks that may stand for `level`, the plainest first. Not every one does: the caller compares what they
/// take. `lines`: all that reach the level; `blocks` are of `divisor` elements. No boundary cuts a block. `widths`: how
/// many blocks a coordinate's part of the first line may be where the level pads.
std::vector<Level> levels_in_blocks(const Level& level, std::span<const BlockedLine> lines,
                                    const BlockNumbering& blocks, Index divisor, std::span<const Index> widths);

/// What a level is in blocks as far as its options alone tell.
Level plain_level_in_blocks(const Level& level, Index divisor);

}  // namespace reshard::layout
