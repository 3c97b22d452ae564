#include "reshard/planner/file_order.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner;
using namespace reshard::planner::test;

namespace {

using Order = std::vector<std::size_t>;

/// Of tensors a [12, 8] and b [12, 8 * b_rows], one file of 100 bytes for each rank of the target.
Order order(const std::string& axes, const std::string& rules, int processes, Index b_rows = 1) {
  const BoundPlan plan =
      bound("{reshard: 1, source: {axes: []}, target: {axes: [" + axes + "]}, tensors: [" + rules + "]}",
            catalog(1, {everywhere("a", 1, {12, 8}), everywhere("b", 1, {12, 8 * b_rows})}));
  const auto ranks = static_cast<std::size_t>(plan.layouts.front().target.ranks);
  Order file_of_rank(ranks);
  std::iota(file_of_rank.begin(), file_of_rank.end(), std::size_t{0});
  return file_order(plan, file_of_rank, std::vector<std::int64_t>(ranks, 100), processes);
}

const std::string kByTp = "{match: '*', shard: {0: tp}}";

}  // namespace

TEST_CASE("replicas stand side by side") {
  CHECK(order("dp=2, tp=2", kByTp, 2) == Order{0, 2, 1, 3});
  CHECK(order("tp=2, dp=2", kByTp, 2) == Order{0, 1, 2, 3});
  CHECK(order("dp=2, tp=4", kByTp, 4) == Order{0, 4, 1, 5, 2, 6, 3, 7});
  CHECK(order("dp=2, tp=3", kByTp, 3) == Order{0, 3, 1, 4, 2, 5});
}

TEST_CASE("repeated heads stand side by side") {
  CHECK(order("tp=4", "{match: '*', shard: {0: {axes: tp, unit: 6, fallback: repeat}}}", 2) == Order{0, 1, 2, 3});
  CHECK(order("dp=2, tp=4", "{match: '*', shard: {0: {axes: tp, unit: 6, fallback: repeat}}}", 2) ==
        Order{0, 1, 4, 5, 2, 3, 6, 7});
}

TEST_CASE("files without anything in common, or with everything, stay in order") {
  CHECK(order("tp=4", kByTp, 2) == Order{0, 1, 2, 3});
  CHECK(order("dp=4", "{match: '*'}", 2) == Order{0, 1, 2, 3});
  CHECK(order("dp=2, tp=2", kByTp, 1) == Order{0, 1, 2, 3});
}

TEST_CASE("most bytes in common decide") {
  const std::string rules = "{match: a, shard: {0: tp}}, {match: b, shard: {0: dp}}";
  CHECK(order("dp=2, tp=2", rules, 2, 1) == Order{0, 1, 2, 3});  // as many: the lowest number
  CHECK(order("dp=2, tp=2", "{match: a, shard: {0: dp}}, {match: b, shard: {0: tp}}", 2, 2) == Order{0, 2, 1, 3});
  CHECK(order("dp=2, tp=2", rules, 2, 2) == Order{0, 1, 2, 3});
}

TEST_CASE("ranks that share a file are one") {
  const BoundPlan plan = bound(
      "{reshard: 1, source: {axes: []}, target: {axes: [dp=2, tp=3]}, tensors: [{match: w, "
      "shard: {0: tp}}]}",
      catalog(1, {everywhere("w", 1, {6})}));
  CHECK(file_order(plan, Order{0, 1, 2, 0, 1, 2}, std::vector<std::int64_t>{100, 100, 100}, 2) == Order{0, 1, 2});
}
