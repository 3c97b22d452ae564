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

TEST_CASE("a tensor's bytes are those of the target's dtype") {
  CHECK(order("dp=2, tp=2", "{match: a, shard: {0: dp}, dtype: bf16}, {match: b, shard: {0: tp}}", 2) ==
        Order{0, 2, 1, 3});
}

TEST_CASE("stages have in common what they own") {
  CHECK(order("dp=2, pp=2", "{match: a, owner: {pp: 0/2}}, {match: b, owner: {pp: 1/2}}", 2) == Order{0, 2, 1, 3});
}

TEST_CASE("shards without elements are nothing in common") {
  const BoundPlan plan = bound(
      "{reshard: 1, source: {axes: []}, target: {axes: [dp=2, tp=4]}, tensors: [{match: a, shard: {0: {axes: tp, "
      "split: chunk}}}, {match: b, shard: {0: tp}}]}",
      catalog(1, {everywhere("a", 1, {2}), everywhere("b", 1, {12})}));
  // Of a the ranks store 1, 1, 0 and 0 elements; those with none have files 0 to 3.
  CHECK(file_order(plan, Order{4, 5, 0, 1, 6, 7, 2, 3}, std::vector<std::int64_t>{10, 10, 10, 10, 10, 10, 10, 1000},
                   2) == Order{0, 2, 1, 3, 4, 6, 5, 7});
}

TEST_CASE("a process is full by the bytes of its files") {
  const auto of_bytes = [](const std::string& axes, const std::vector<std::int64_t>& bytes, int processes) {
    const BoundPlan plan =
        bound("{reshard: 1, source: {axes: []}, target: {axes: [" + axes + "]}, tensors: [" + kByTp + "]}",
              catalog(1, {everywhere("a", 1, {12, 8})}));
    return file_order(plan, Order{0, 1, 2, 3, 4, 5}, bytes, processes);
  };
  // Files 0 and 2 are the first one's half; 4, which is like them, waits for the end.
  CHECK(of_bytes("dp=3, tp=2", {100, 100, 500, 100, 100, 100}, 2) == Order{0, 2, 1, 3, 5, 4});
  // File 3 takes the second one's share, too: all others are the third one's.
  CHECK(of_bytes("dp=2, tp=3", {100, 100, 100, 700, 100, 100}, 3) == Order{0, 3, 1, 4, 2, 5});
}

TEST_CASE("what a process has in common is counted once, and all of it") {
  const auto of_owners = [](const std::string& rules, std::vector<SourceTensor> tensors) {
    const BoundPlan plan = bound("{reshard: 1, source: {axes: []}, target: {axes: [x=4]}, tensors: [" + rules + "]}",
                                 catalog(1, std::move(tensors)));
    return file_order(plan, Order{0, 1, 2, 3}, std::vector<std::int64_t>{10, 10, 10, 970}, 2);
  };
  // File 2 has 3 elements in common with files 0 and 1, file 3 has 4 with file 1.
  CHECK(of_owners("{match: a, owner: {x: {index: [0, 1, 2], count: 4}}}, {match: b, owner: {x: {index: [1, 3], count: "
                  "4}}}",
                  {everywhere("a", 1, {3}), everywhere("b", 1, {4})}) == Order{0, 1, 3, 2});
  // With file 0 file 1 has 5 in common, file 2 has 3 and 3.
  CHECK(of_owners("{match: a, owner: {x: {index: [0, 1], count: 4}}}, {match: b, owner: {x: {index: [0, 2], count: "
                  "4}}}, {match: c, owner: {x: {index: [0, 2, 3], count: 4}}}",
                  {everywhere("a", 1, {5}), everywhere("b", 1, {3}), everywhere("c", 1, {3})}) == Order{0, 2, 1, 3});
}

TEST_CASE("what the process before has in common counts no more") {
  // By tp files 0, 2, 4 and 1, 3, 5 have 8 elements in common, by dp 0, 1 and 2, 3 and 4, 5 have 4.
  const BoundPlan plan = bound(
      "{reshard: 1, source: {axes: []}, target: {axes: [dp=3, tp=2]}, tensors: [{match: a, shard: {0: tp}}, {match: b, "
      "shard: {0: dp}}]}",
      catalog(1, {everywhere("a", 1, {16}), everywhere("b", 1, {12})}));
  CHECK(file_order(plan, Order{0, 1, 2, 3, 4, 5}, std::vector<std::int64_t>{500, 100, 100, 100, 100, 100}, 2) ==
        Order{0, 1, 3, 5, 2, 4});
}

TEST_CASE("padding is nothing in common") {
  // Files 0 and 1 have 6 elements of a in common and 2 of padding, files 0 and 2 have 7 of b.
  const BoundPlan plan = bound(
      "{reshard: 1, source: {axes: []}, target: {axes: [dp=2, tp=2]}, tensors: [{match: a, shard: {0: dp}, "
      "target: {shard: {0: {pad_total: 8}}}}, {match: b, shard: {0: tp}}]}",
      catalog(1, {everywhere("a", 1, {14}), everywhere("b", 1, {14})}));
  CHECK(file_order(plan, Order{2, 3, 0, 1}, std::vector<std::int64_t>(4, 100), 2) == Order{0, 2, 1, 3});
}

TEST_CASE("ranks that share a file are one") {
  const BoundPlan plan = bound(
      "{reshard: 1, source: {axes: []}, target: {axes: [dp=2, tp=3]}, tensors: [{match: w, "
      "shard: {0: tp}}]}",
      catalog(1, {everywhere("w", 1, {6})}));
  CHECK(file_order(plan, Order{0, 1, 2, 0, 1, 2}, std::vector<std::int64_t>{100, 100, 100}, 2) == Order{0, 1, 2});
}
