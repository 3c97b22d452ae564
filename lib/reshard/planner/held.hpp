#pragma once
// Who holds which part of a dim: the line of global indices cut wherever the set of holders changes.

#include <cstdint>
#include <vector>

#include "reshard/layout/tensor_layout.hpp"

namespace reshard::planner {

using layout::Index;

/// A part of a DimLayout and the stored position at which it holds the beginning of a range.
struct Holding {
  std::int32_t part = 0;
  Index stored = 0;

  friend bool operator==(const Holding&, const Holding&) = default;
};

/// Global indices [global, global + length), held by the same parts throughout, contiguous in each of them.
struct HeldRange {
  Index global = 0;
  Index length = 0;
  std::vector<Holding> holders;  ///< ascending by part; never empty

  friend bool operator==(const HeldRange&, const HeldRange&) = default;
};

/// Maximal ranges in global order. Indices that no part holds are in none. O(n log n + holdings) in the runs of all
/// parts.
std::vector<HeldRange> held_ranges(const layout::DimLayout& dim);

}  // namespace reshard::planner
