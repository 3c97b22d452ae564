#pragma once
// Along which axes of a mesh something of the ranks changes. An axis along which nothing changes only makes copies.

#include <cstddef>
#include <vector>

#include "reshard/layout/mesh.hpp"

namespace reshard::pipeline {

class MeshWalk {
 public:
  explicit MeshWalk(const layout::Mesh& mesh);

  /// The axes, in mesh order, along which `differs(rank, other)` holds for some rank and the one at coordinate 0 of
  /// that axis. Axes of size 1 never do. Cost O(axes x ranks).
  template <typename Differs>
  std::vector<layout::Axis> changing(Differs&& differs) const {
    std::vector<layout::Axis> out;
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      for (std::size_t rank = 0; rank < first_on_axis_[a].size(); ++rank) {
        const layout::Index other = first_on_axis_[a][rank];
        if (!differs(static_cast<layout::Index>(rank), other)) continue;
        out.push_back(axes_[a]);
        break;
      }
    }
    return out;
  }

 private:
  std::vector<layout::Axis> axes_;                         // of size > 1
  std::vector<std::vector<layout::Index>> first_on_axis_;  // by axis and rank: the same coordinates, 0 on the axis
};

}  // namespace reshard::pipeline
