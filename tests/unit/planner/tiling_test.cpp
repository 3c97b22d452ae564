#include "reshard/planner/tiling.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/cut_text.hpp"
#include "support/replay.hpp"

using namespace reshard;
using cut_text::cut;
using layout::Index;
using layout::Mesh;
using layout::TensorLayout;
using planner::Tile;
using planner::Tiling;

namespace {

TensorLayout over(const Shape& shape, const std::vector<layout::DimCut>& dims, const std::vector<layout::Axis>& axes) {
  return layout::lay_out(shape, {dims, {}}, Mesh(axes, {}));
}

/// "reads 0:16x4 1:16x4 writes 1@0+128": rank, rows and wanted columns; rank, first stored element and number.
std::string text(const Tile& tile) {
  std::string out = "reads";
  for (const planner::SourcePart& part : tile.sources)
    out += fmt::format(" {}@{}:{}x{}", part.rank, part.first, part.rows, part.columns);
  out += " writes";
  for (const planner::TargetPart& part : tile.targets) {
    out += " ";
    for (const Index rank : part.ranks) out += fmt::format("{}{}", rank == part.ranks.front() ? "" : ",", rank);
    out += fmt::format("@{}+{}", part.first, part.elements);
  }
  return out;
}

std::vector<std::string> tiles(const TensorLayout& source, const TensorLayout& target, Index tile_elements) {
  const planner::TensorToRead to_read{&source, 1};
  const std::vector<Index> sources = planner::choose_sources({&to_read, 1}).front();
  const Tiling tiling(source, target, tile_elements);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < tiling.size(); ++i) out.push_back(text(tiling.tile(i, sources)));
  return out;
}

}  // namespace

TEST_CASE("a tile is some rows of all source shards that hold them, and of the target shard they go to") {
  const std::vector<layout::Axis> two = {{"tp", 2}};
  const std::vector<layout::Axis> four = {{"tp", 4}};
  const TensorLayout columns = over({64, 8}, {{}, cut("tp", 2)}, two);
  const TensorLayout rows = over({64, 8}, {cut("tp", 4), {}}, four);
  CHECK(tiles(columns, rows, 16 * 16) == std::vector<std::string>{"reads 0@0:16x4 1@0:16x4 writes 0@0+128",
                                                                  "reads 0@64:16x4 1@64:16x4 writes 1@0+128",
                                                                  "reads 0@128:16x4 1@128:16x4 writes 2@0+128",
                                                                  "reads 0@192:16x4 1@192:16x4 writes 3@0+128"});
  // Back: a row of the target's two shards is read from one source shard.
  CHECK(tiles(rows, columns, 1 << 20) ==
        std::vector<std::string>{"reads 0@0:16x8 writes 0@0+64 1@0+64", "reads 1@0:16x8 writes 0@64+64 1@64+64",
                                 "reads 2@0:16x8 writes 0@128+64 1@128+64", "reads 3@0:16x8 writes 0@192+64 1@192+64"});
}

TEST_CASE("where a row of the outer dim is more than a tile, rows are those of an inner dim, at least one at a time") {
  const TensorLayout whole = over({2, 3, 10}, {{}, {}, {}}, {{"tp", 1}});
  CHECK(tiles(whole, whole, 1 << 20) == std::vector<std::string>{"reads 0@0:2x30 writes 0@0+60"});
  CHECK(tiles(whole, whole, 60) ==
        std::vector<std::string>{"reads 0@0:1x30 writes 0@0+30", "reads 0@30:1x30 writes 0@30+30"});
  CHECK(tiles(whole, whole, 45) ==
        std::vector<std::string>{"reads 0@0:2x10 writes 0@0+20", "reads 0@20:1x10 writes 0@20+10",
                                 "reads 0@30:2x10 writes 0@30+20", "reads 0@50:1x10 writes 0@50+10"});
  CHECK(tiles(over({3}, {{}}, {{"tp", 1}}), over({3}, {{}}, {{"tp", 1}}), 1) ==
        std::vector<std::string>{"reads 0@0:1x1 writes 0@0+1", "reads 0@1:1x1 writes 0@1+1",
                                 "reads 0@2:1x1 writes 0@2+1"});
}

TEST_CASE("a scalar is one tile, a tensor without elements none") {
  CHECK(tiles(over({}, {}, {{"tp", 2}}), over({}, {}, {{"tp", 3}}), 100) ==
        std::vector<std::string>{"reads 0@0:1x1 writes 0,1,2@0+1"});
  CHECK(tiles(over({0, 4}, {{}, {}}, {{"tp", 1}}), over({0, 4}, {{}, {}}, {{"tp", 1}}), 100) ==
        std::vector<std::string>{});
  CHECK(tiles(over({4, 0}, {{}, {}}, {{"tp", 1}}), over({4, 0}, {{}, {}}, {{"tp", 1}}), 100) ==
        std::vector<std::string>{});
}

TEST_CASE("replicas are written from one read, and one of them is read") {
  const TensorLayout source = over({4}, {cut("tp", 2)}, {{"dp", 2}, {"tp", 2}});
  const TensorLayout target = over({4}, {{}}, {{"dp", 3}});
  CHECK(tiles(source, target, 100) ==
        std::vector<std::string>{"reads 0@0:2x1 writes 0,1,2@0+2", "reads 1@0:2x1 writes 0,1,2@2+2"});
}

TEST_CASE("tiles of any size carry every element to every place where the oracle counts it, once") {
  constexpr int kCases = 1500;
  random_layouts::Random random(20260902);
  std::map<std::string, int> shown;
  for (int i = 0; i < kCases;) {
    const std::vector<std::string>& wishes = random_layouts::features();
    const std::string& wish = wishes[static_cast<std::size_t>(i) % wishes.size()];
    const random_layouts::Case c = random_layouts::draw(random, wish);
    const std::optional<replay::Pair> pair = replay::pair_of(c);
    if (!pair || !c.features.contains(wish)) continue;
    ++i;
    for (const std::string& feature : c.features) ++shown[feature];
    const Index tile_elements = random.one_of<Index>({1, 5, 40, 300, 1 << 20});
    const Tiling tiling(pair->source, pair->target, tile_elements);
    replay::Replay replay(*pair, c.shape);
    for (std::size_t t = 0; t < tiling.size(); ++t) replay.carry_out(tiling.tile(t, pair->sources));
    const std::string fault = replay.finished();
    if (fault.empty()) continue;
    FAIL_CHECK(fmt::format("{}: tiles of {}, case {}: {}", fault, tile_elements, i, random_layouts::describe(c)));
  }
  for (const std::string& feature : random_layouts::features()) {
    CAPTURE(feature);
    CHECK(shown[feature] * 50 >= kCases);
  }
}
