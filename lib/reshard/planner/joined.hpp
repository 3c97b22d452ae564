#pragma once
// Both sides of a dim on one line: the global indices cut wherever either side changes, so that one range has the same
// source and target holders throughout and is contiguous in all of them. The unit of work (planner/tiling.hpp) is made
// of these.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reshard/layout/tensor_layout.hpp"
#include "reshard/planner/held.hpp"

namespace reshard::planner {

/// A place in a target part that receives a range.
struct TargetHolding {
  std::int32_t part = 0;
  Index stored = 0;
  /// The first true holder of the range: the one whose elements count for the tensor's digest.
  bool canonical = true;

  friend bool operator==(const TargetHolding&, const TargetHolding&) = default;
};

struct JoinedRange {
  Index global = 0;
  Index length = 0;
  std::size_t source_range = 0;  ///< index into the source's held_ranges, which number the pieces of choose_sources
  std::vector<Holding> sources;  ///< empty: constant padding, which nothing is read for
  std::vector<TargetHolding> targets;  ///< never empty

  bool is_padding() const { return sources.empty(); }

  friend bool operator==(const JoinedRange&, const JoinedRange&) = default;
};

/// Ranges in global order; indices that no source part or no target part holds are left out. Target padding with a
/// `copy_of` is one more target of that index, never canonical. Temporary padding follows at the end, a range without
/// sources (and without a meaningful `global`) for each piece of it. `source_ranges` = held_ranges(source).
/// O(n log n + holdings).
std::vector<JoinedRange> join_dim(const std::vector<HeldRange>& source_ranges, const layout::DimLayout& target);

}  // namespace reshard::planner
