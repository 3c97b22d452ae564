#include "reshard/pipeline/mesh_walk.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace reshard;
using layout::Axis;
using layout::Index;

namespace {

std::vector<Axis> changing(const layout::Mesh& mesh, const std::vector<int>& by_rank) {
  return pipeline::MeshWalk(mesh).changing(
      [&](Index a, Index b) { return by_rank[static_cast<std::size_t>(a)] != by_rank[static_cast<std::size_t>(b)]; });
}

}  // namespace

TEST_CASE("the axes along which something changes are found, whatever the numbers of the ranks") {
  const layout::Mesh mesh({{"dp", 2}, {"one", 1}, {"tp", 3}});
  CHECK(changing(mesh, {7, 8, 9, 7, 8, 9}) == std::vector<Axis>{{"tp", 3}});
  CHECK(changing(mesh, {7, 7, 7, 8, 8, 8}) == std::vector<Axis>{{"dp", 2}});
  CHECK(changing(mesh, {7, 7, 7, 7, 7, 7}) == std::vector<Axis>{});
  CHECK(changing(mesh, {7, 7, 7, 7, 7, 8}) == std::vector<Axis>{{"dp", 2}, {"tp", 3}});
  // Position p is rank 5 - p: the same values in reverse.
  CHECK(changing(layout::Mesh({{"dp", 2}, {"tp", 3}}, {5, 4, 3, 2, 1, 0}), {8, 8, 8, 7, 7, 7}) ==
        std::vector<Axis>{{"dp", 2}});
}
