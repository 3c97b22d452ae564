#include "reshard/planner/holding_text.hpp"

#include <doctest/doctest.h>

#include <string>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner;
using namespace reshard::planner::test;

namespace {

std::string held(const std::string& axes, const std::string& rules, Index rank, const SourceCatalog& others) {
  const std::string text = "{reshard: 1, source: {axes: [" + axes + "]}, target: {}, tensors: [" + rules + "]}";
  return holding_text(plan::read_plan(text, plan::Notation::kYaml, "p.yaml"), rank, others);
}

}  // namespace

TEST_CASE("a rank's tensors by their numbers and elements") {
  // Stages of two ranks; rank 3 is missing.
  const SourceCatalog others =
      catalog(4, {by_rank("embed", {{{2, 4}}, {{2, 4}}}), by_rank("layers.0.w", {{{2, 4}}, {{2, 4}}}),
                  by_rank("layers.1.w", {{}, {}, {{2, 4}}}), everywhere("norm", 3, {3})});
  const std::string rules =
      "{match: embed, owner: {pp: 0/2}, shard: {0: tp}}, {match: layers.*.w, owner: {pp: $1/2}, shard: {0: tp}}, "
      "{match: norm}, {match: other, optional: true}";
  CHECK(held("pp=2, tp=2", rules, 3, others) ==
        "'layers.*.w' (tensors[1]) with $1 = 1 of axis pp, elements 2 to 3 of dim 0; 'norm' (tensors[2])");
  CHECK(held("pp=2, tp=2", rules, 1, others) ==
        "'embed' (tensors[0]), elements 2 to 3 of dim 0; 'layers.*.w' (tensors[1]) with $1 = 0 of axis pp, elements 2 "
        "to 3 of dim 0; 'norm' (tensors[2])");
}

TEST_CASE("fused parts are several runs") {
  const SourceCatalog others = catalog(2, {by_rank("qkv", {{{3, 4}}})});
  CHECK(held("tp=2", "{match: qkv, shard: {0: {axes: tp, segments: [4, 2]}}}", 1, others) ==
        "'qkv' (tensors[0]), elements 2 to 3, 5 of dim 0");
}

TEST_CASE("dims whose true size one shard does not tell are named alone") {
  const SourceCatalog others = catalog(2, {by_rank("w", {{{4}}})});
  CHECK(held("tp=2", "{match: w, shard: {0: {axes: tp, split: balanced}}}", 1, others) ==
        "'w' (tensors[0]), what is its own of dim 0");
  CHECK(held("tp=2", "{match: w, shard: {0: {axes: tp, pad_total: 4}}}", 1, others) ==
        "'w' (tensors[0]), what is its own of dim 0");
  CHECK(held("tp=2", "{match: w, shard: {0: {axes: tp, pad_total: 4, size: 7}}}", 1, others) ==
        "'w' (tensors[0]), elements 4 to 6 of dim 0");
  CHECK(held("tp=2", "{match: w, shard: {0: {axes: tp, fallback: replicate}}}", 1, others) ==
        "'w' (tensors[0]), what is its own of dim 0");
  CHECK(held("tp=2", "{match: w, shard: {0: {axes: tp, size: 12}}}", 1, others) ==
        "'w' (tensors[0]), what is its own of dim 0");
}

TEST_CASE("tensors that no other rank has, groups and local numbers") {
  const SourceCatalog others =
      catalog(4, {by_rank("l.0.w", {{{2}}, {{2}}}), by_rank("g.weight", {{{2, 2}}}), by_rank("g.bias", {{{2}}})});
  CHECK(held("pp=2, tp=2",
             "{match: l.*.w, owner: {pp: {index: $1, count: 6, numbering: local}}, shard: {0: tp}}, "
             "{match: fin, owner: {pp: 3/4}}, {match: g, shard: {out: tp}, members: {weight: out in, bias: out}}, "
             "{match: none, optional: true}",
             3, others) ==
        "'l.*.w' (tensors[0]) with $1 = 3 to 5 of axis pp (0 to 2 in the file), elements 2 to 3 of dim 0; 'fin' "
        "(tensors[1]); 'g' (tensors[2]), what is its own of every member");
}

TEST_CASE("of many rules the first are told") {
  SourceCatalog others = catalog(2, {});
  std::string rules;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    others.tensors.push_back(by_rank(name, {{{4}}}));
    rules += std::string("{match: ") + name + "}, ";
  }
  CHECK(held("tp=2", rules, 1, others) ==
        "'a' (tensors[0]); 'b' (tensors[1]); 'c' (tensors[2]); 'd' (tensors[3]); tensors of 2 rules more");
}
