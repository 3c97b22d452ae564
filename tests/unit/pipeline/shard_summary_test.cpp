#include "reshard/pipeline/shard_summary.hpp"

#include <doctest/doctest.h>

using namespace reshard;
using layout::Run;
using pipeline::ShardSummary;

namespace {

/// Six rows over three ranks, the last of which has what the first has; rank 3 has nothing of it. Rank 1 holds rows 3
/// to 5 behind one row of padding.
layout::TensorLayout rows() {
  layout::DimLayout dim;
  dim.parts = {{{{0, 0, 2}, {5, 2, 1}}, {}, 3}, {{{2, 1, 3}}, {{0, 1, std::nullopt, false}}, 4}};
  dim.part_of_rank = {0, 1, 0, 0};
  layout::DimLayout whole;
  whole.parts = {{{{0, 0, 4}}, {}, 4}};
  whole.part_of_rank = {0, 0, 0, 0};
  return {{6, 4}, {dim, whole}, 4, {true, true, true, false}, {}};
}

}  // namespace

TEST_CASE("equal shards are one, with the ranks that hold it") {
  const std::vector<ShardSummary> shards = pipeline::shards_of(rows());
  CHECK(shards == std::vector<ShardSummary>{{{{{0, 0, 2}, {5, 2, 1}}, {{0, 0, 4}}}, {3, 4}, {0, 2}},
                                            {{{{2, 1, 3}}, {{0, 0, 4}}}, {4, 4}, {1}}});
}

TEST_CASE("a box of a shard is a box of the tensor") {
  const std::vector<ShardSummary> shards = pipeline::shards_of(rows());
  CHECK(pipeline::global_box(shards[0], {{2, 3}, {0, 4}}) == planner::Box{{5, 6}, {0, 4}});
  CHECK(pipeline::global_box(shards[0], {{1, 2}, {1, 2}}) == planner::Box{{1, 2}, {1, 2}});
  CHECK(pipeline::global_box(shards[1], {{1, 4}, {0, 4}}) == planner::Box{{2, 5}, {0, 4}});
}

TEST_CASE("a scalar is one shard without dims") {
  const layout::TensorLayout scalar{{}, {}, 3, {}, {}};
  CHECK(pipeline::shards_of(scalar) == std::vector<ShardSummary>{{{}, {}, {0, 1, 2}}});
  CHECK(pipeline::global_box(pipeline::shards_of(scalar)[0], {}).empty());
}
