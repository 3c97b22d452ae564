#include "reshard/planner/work.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "support/replay.hpp"

using namespace reshard;
using layout::Index;
using planner::Tile;
using planner::TileId;
using planner::Tiling;
using planner::WorkTensor;

namespace {

/// The elements that a tile brings to the wanted targets: target rank, stored element there, source rank, stored
/// element there.
std::set<std::tuple<Index, Index, Index, Index>> moves(const Tile& tile, const std::vector<bool>& wanted) {
  std::set<std::tuple<Index, Index, Index, Index>> out;
  for (const layout::CopyBox& box : tile.copies) {
    if (!wanted[box.target]) continue;
    const planner::SourcePart& source = tile.sources[box.source];
    const planner::TargetPart& target = tile.targets[box.target];
    replay::for_each_element(box, [&](Index from, Index to, Index) {
      out.emplace(target.ranks.front(), target.first + to, source.rank, source.first + from);
    });
  }
  for (const planner::PadBox& pad : tile.pads) {
    if (!wanted[pad.box.target]) continue;
    const planner::TargetPart& target = tile.targets[pad.box.target];
    replay::for_each_element(pad.box, [&](Index, Index to, Index) {
      out.emplace(target.ranks.front(), target.first + to, -1 - static_cast<Index>(pad.dim), 0);
    });
  }
  return out;
}

}  // namespace

TEST_CASE("tiles are numbered tensor by tensor") {
  const layout::TensorLayout whole = layout::lay_out({6}, {{{}}, {}}, layout::Mesh({{"tp", 1}}, {}));
  const layout::TensorLayout none = layout::lay_out({0}, {{{}}, {}}, layout::Mesh({{"tp", 1}}, {}));
  const Tiling six(whole, whole, 1);
  const Tiling empty(none, none, 1);
  const Tiling three(whole, whole, 4);
  std::vector<WorkTensor> work(4);
  work[0].tiling = &three;
  work[1].tiling = &empty;
  work[2].tiling = &six;
  work[3].tiling = &empty;
  const planner::TileList tiles(work);
  CHECK(tiles.size() == 9);
  CHECK(tiles[0] == TileId{0, 0});
  CHECK(tiles[2] == TileId{0, 2});
  CHECK(tiles[3] == TileId{2, 0});
  CHECK(tiles[8] == TileId{2, 5});
  CHECK(planner::TileList({}).size() == 0);
}

TEST_CASE("the lanes of a tile list take turns within a tensor, each tile once") {
  const layout::TensorLayout whole = layout::lay_out({7}, {{{}}, {}}, layout::Mesh({{"tp", 1}}, {}));
  const Tiling seven(whole, whole, 1);
  const Tiling one(whole, whole, 100);
  std::vector<WorkTensor> work(2);
  work[0].tiling = &seven;
  work[1].tiling = &one;
  const auto order = [&](int lanes) {
    const planner::TileList tiles(work, lanes);
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < tiles.size(); ++i) out.push_back(10 * tiles[i].tensor + tiles[i].number);
    return out;
  };
  CHECK(order(1) == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 10});
  CHECK(order(2) == std::vector<std::size_t>{0, 4, 1, 5, 2, 6, 3, 10});
  CHECK(order(3) == std::vector<std::size_t>{0, 3, 5, 1, 4, 6, 2, 10});
  CHECK(order(8) == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 10});
}

TEST_CASE(
    "what is left of a tile brings the same elements to the targets that are wanted, and reads no column that none of "
    "them needs") {
  random_layouts::Random random(20260903);
  for (std::size_t i = 0; i < 800; ++i) {
    const replay::Drawn drawn = replay::draw_pair(random, i);
    const Tiling tiling(drawn.pair.source, drawn.pair.target, random.one_of<Index>({1, 30, 1 << 20}));
    bool right = true;
    for (std::size_t t = 0; t < tiling.size(); ++t) {
      const Tile tile = tiling.tile(t, drawn.pair.sources);
      std::vector<bool> wanted;
      for (std::size_t k = 0; k < tile.targets.size(); ++k) wanted.push_back(random.chance(50));
      const Tile left = planner::restricted(tile, wanted);
      right = right && moves(left, std::vector<bool>(left.targets.size(), true)) == moves(tile, wanted);
      std::vector<Index> low(left.sources.size(), 1 << 30);
      std::vector<Index> high(left.sources.size(), -1);
      for (const layout::CopyBox& box : left.copies)
        replay::for_each_element(box, [&](Index from, Index, Index) {
          low[box.source] = std::min(low[box.source], from % left.sources[box.source].row_elements);
          high[box.source] = std::max(high[box.source], from % left.sources[box.source].row_elements);
        });
      for (std::size_t s = 0; s < left.sources.size(); ++s)
        right = right && left.sources[s].column == low[s] &&
                left.sources[s].column + left.sources[s].columns == high[s] + 1;
    }
    if (!right) FAIL_CHECK(fmt::format("case {}: {}", i, random_layouts::describe(drawn.layouts)));
  }
}
