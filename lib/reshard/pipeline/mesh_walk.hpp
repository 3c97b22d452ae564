#pragma once
// Along which axes of a mesh something of the ranks changes. An axis along which nothing changes only makes copies.

#include <cstddef>
#include <vector>

#include "reshard/layout/mesh.hpp"

namespace reshard::pipeline {

class MeshWalk {
 public:
  explicit MeshWalk(const layout::Mesh& mesh);

  /// Of size above 1, in mesh order.
  const std::vector<layout::Axis>& axes() const { return axes_; }

  /// Whether `differs(rank, other)` holds for some rank and the one at coordinate 0 of axis `a` of axes(). Cost
  /// O(ranks).
  template <typename Differs>
  bool changes(std::size_t a, Differs&& differs) const {
    for (std::size_t rank = 0; rank < first_on_axis_[a].size(); ++rank)
      if (differs(static_cast<layout::Index>(rank), first_on_axis_[a][rank])) return true;
    return false;
  }
  /// The axes for which that is so.
  template <typename Differs>
  std::vector<layout::Axis> changing(Differs&& differs) const {
    std::vector<layout::Axis> out;
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (changes(a, differs)) out.push_back(axes_[a]);
    return out;
  }

 private:
  std::vector<layout::Axis> axes_;
  std::vector<std::vector<layout::Index>> first_on_axis_;  // by axis and rank: the same coordinates, 0 on the axis
};

}  // namespace reshard::pipeline
