#include "reshard/pipeline/mesh_walk.hpp"

namespace reshard::pipeline {

using layout::Index;

MeshWalk::MeshWalk(const layout::Mesh& mesh) {
  // position -> rank, and the distance between neighbours on each axis in positions.
  std::vector<Index> rank_at(static_cast<std::size_t>(mesh.size()));
  std::vector<std::vector<Index>> coordinates;
  for (Index rank = 0; rank < mesh.size(); ++rank) {
    coordinates.push_back(mesh.coordinates(rank));
    Index position = 0;
    for (std::size_t a = 0; a < mesh.axes().size(); ++a)
      position = position * mesh.axes()[a].size + coordinates.back()[a];
    rank_at[static_cast<std::size_t>(position)] = rank;
  }
  Index stride = mesh.size();
  for (std::size_t a = 0; a < mesh.axes().size(); ++a) {
    stride /= mesh.axes()[a].size;
    if (mesh.axes()[a].size == 1) continue;
    axes_.push_back(mesh.axes()[a]);
    std::vector<Index>& first = first_on_axis_.emplace_back();
    first.resize(rank_at.size());
    for (std::size_t position = 0; position < rank_at.size(); ++position) {
      const auto rank = static_cast<std::size_t>(rank_at[position]);
      const Index at_zero = static_cast<Index>(position) - coordinates[rank][a] * stride;
      first[rank] = rank_at[static_cast<std::size_t>(at_zero)];
    }
  }
}

}  // namespace reshard::pipeline
