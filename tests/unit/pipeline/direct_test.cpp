#include "reshard/pipeline/direct.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "reshard/planner/rounds.hpp"
#include "support/replay.hpp"

using namespace reshard;
using layout::Index;
using pipeline::DirectCost;
using planner::Tile;
using planner::Tiling;

TEST_CASE("what a process takes of a tile is what the part that is left for it takes, and alone it takes the whole") {
  random_layouts::Random random(20261130);
  for (std::size_t i = 0; i < 400; ++i) {
    const replay::Drawn drawn = replay::draw_pair(random, i);
    const Tiling tiling(drawn.pair.source, drawn.pair.target, random.one_of<Index>({1, 30, 1 << 20}));
    planner::WorkTensor work;
    work.tiling = &tiling;
    work.source_element_bytes = random.one_of<std::int64_t>({1, 2, 8});
    work.target_element_bytes = random.one_of<std::int64_t>({1, 2, 8});
    bool right = true;
    for (std::size_t t = 0; t < tiling.size(); ++t) {
      const Tile tile = tiling.tile(t, drawn.pair.sources);
      std::vector<bool> wanted;
      for (std::size_t k = 0; k < tile.targets.size(); ++k) wanted.push_back(random.chance(50));
      const Tile left = planner::restricted(tile, wanted);
      // Counted from the parts as they are, one by one.
      for (const auto& [whole, cost] : {std::pair(&left, pipeline::tile_cost(tile, wanted, work)),
                                        std::pair(&tile, pipeline::tile_cost(tile, {}, work))}) {
        DirectCost expected;
        Index largest = 0;
        for (const planner::SourcePart& part : whole->sources) {
          const std::int64_t bytes = pipeline::read_bytes(part, work.source_element_bytes);
          expected.bytes_read += bytes;
          expected.reads += pipeline::reads(part, work.source_element_bytes);
          expected.least_memory_bytes += planner::buffer_bytes(bytes);
        }
        for (const planner::TargetPart& part : whole->targets)
          expected.least_memory_bytes += planner::buffer_bytes(part.elements * work.target_element_bytes);
        for (const layout::CopyBox& box : whole->copies) largest = std::max(largest, box.elements());
        if (work.source_element_bytes != work.target_element_bytes)
          expected.least_memory_bytes += planner::buffer_bytes(largest * work.source_element_bytes) +
                                         planner::buffer_bytes(largest * work.target_element_bytes);
        right = right && cost.bytes_read == expected.bytes_read && cost.reads == expected.reads &&
                cost.least_memory_bytes == expected.least_memory_bytes;
      }
    }
    if (!right) FAIL_CHECK(fmt::format("case {}: {}", i, random_layouts::describe(drawn.layouts)));
  }
}
