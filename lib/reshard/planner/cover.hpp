#pragma once
// Boxes against a shape, counted exactly: the proof behind coverage. A sweep over the first dim cuts the boxes into
// slabs of equal membership and looks at each slab's boxes in the dims behind. Nothing is projected: two diagonal 1x1
// boxes of a 2x2 shape cover two elements, not four.

#include <cstdint>
#include <span>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/layout/mesh.hpp"

namespace reshard::planner {

using layout::Index;

/// Half-open, per dim.
struct Interval {
  Index begin = 0;
  Index end = 0;

  friend auto operator<=>(const Interval&, const Interval&) = default;
};

using Box = std::vector<Interval>;

/// What a set of boxes does to a shape.
struct Cover {
  Index missing = 0;
  Index twice = 0;
  std::vector<Index> first_missing;  ///< row-major first; empty if none
  std::vector<Index> first_twice;

  friend bool operator==(const Cover&, const Cover&) = default;
};

/// Boxes against [0, shape): elements in no box and elements in more than one. Boxes that are equal are replicas and
/// count once. O(n log n) in the boxes for layouts of this tool (products of intervals). Errors: kCoverage for a box
/// that leaves the shape.
Cover cover(const Shape& shape, std::span<const Box> boxes);

/// The same for boxes laid out one after the other, shape.size() intervals each, `count` of them; equal ones count
/// each. They lie within the shape.
Cover cover_each(const Shape& shape, std::span<const Interval> intervals, std::size_t count);

}  // namespace reshard::planner
