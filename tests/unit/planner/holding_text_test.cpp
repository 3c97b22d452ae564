#include "reshard/planner/holding_text.hpp"

#include <doctest/doctest.h>

#include <string>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner;
using namespace reshard::planner::test;

namespace {

std::string held(const std::string& axes, const std::string& rules, Index rank, const SourceCatalog& others,
                 const std::string& views = "") {
  const std::string text =
      "{reshard: 1, source: {axes: [" + axes + "], views: {" + views + "}}, target: {}, tensors: [" + rules + "]}";
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
  CHECK(held("tp=2", "{match: w, shard: {0: {axes: tp, segments: [4, 2, 4]}}}", 1,
             catalog(2, {by_rank("w", {{{5}}})})) == "'w' (tensors[0]), elements 2 to 3, 5, 8 to 9 of dim 0");
  CHECK(held("tp=2", "{match: w, shard: {0: {axes: tp, segments: [4, 2, 4, 2]}}}", 1,
             catalog(2, {by_rank("w", {{{6}}})})) ==
        "'w' (tensors[0]), elements 2 to 3, 5, 8 to 9, and more, 4 runs in all of dim 0");
}

TEST_CASE("a rank that has no element of a dim") {
  // Pieces of ceil(5 / 4) = 2: 2, 2, 1, 0.
  const SourceCatalog others = catalog(4, {by_rank("w", {{{2}}, {{2}}, {{1}}})});
  CHECK(held("tp=4", "{match: w, shard: {0: {axes: tp, split: chunk, size: 5}}}", 3, others) ==
        "'w' (tensors[0]), no element of dim 0");
}

TEST_CASE("numbers and elements are those of the rule's view") {
  // Rank 3 is expert rank 1 of 2 and the second of its two ranks.
  const SourceCatalog others = catalog(4, {by_rank("e.0.w", {{{3}}, {{3}}}), by_rank("e.2.w", {{}, {}, {{3}}})});
  CHECK(held("tp=4", "{match: e.*.w, view: expert, owner: {ep: $1/4}, shard: {0: etp}}", 3, others,
             "expert: [ep=2, etp=2]") == "'e.*.w' (tensors[0]) with $1 = 2 to 3 of axis ep, elements 3 to 5 of dim 0");
}

TEST_CASE("every owner says its numbers, and one that has none that there is nothing") {
  const SourceCatalog others = catalog(4, {by_rank("l.0.e.0.w", {{{2}}})});
  CHECK(held("pp=2, ep=2", "{match: l.*.e.*.w, owner: {pp: $1/2, ep: $2/4}}", 3, others) ==
        "'l.*.e.*.w' (tensors[0]) with $1 = 1 of axis pp and $2 = 2 to 3 of axis ep");
  CHECK(held("pp=2", "{match: l.*.e.*.w, owner: {pp: {index: $1, split: [2, 0]}}}, {match: norm}", 1, others) ==
        "'norm' (tensors[1])");
}

TEST_CASE("what a rule drops is not needed") {
  const SourceCatalog others = catalog(2, {by_rank("a", {{{2}}}), by_rank("b", {{{2}}})});
  CHECK(held("tp=2", "{match: a, drop: true}, {match: b}", 1, others) == "'b' (tensors[1])");
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
  CHECK(held("tp=2", "{match: w, shard: {0: {axes: tp, unit: 3}}}", 1, others) ==
        "'w' (tensors[0]), what is its own of dim 0");
  CHECK(held("tp=2", "{match: w, shard: {0: {axes: tp, pad_to: 4}}}", 1, others) ==
        "'w' (tensors[0]), what is its own of dim 0");
  // Sequences of 3 and 5 elements, padded to 4 and 8.
  CHECK(held("cp=2", "{match: w, shard: {0: {axes: cp, layout: zigzag, packed: {cu_seqlens: [0, 3, 8]}}}}", 1,
             catalog(2, {by_rank("w", {{{6}}})})) == "'w' (tensors[0]), what is its own of dim 0");
  CHECK(held("cp=2",
             "{match: w, shard: {0: {axes: cp, layout: zigzag, packed: {cu_seqlens: cu}}}}, {match: cu, optional: "
             "true}",
             1, catalog(2, {by_rank("w", {{{6}}})})) == "'w' (tensors[0]), what is its own of dim 0");
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
  const auto add = [&](const std::string& name) {
    others.tensors.push_back(by_rank(name, {{{4}}}));
    rules += "{match: " + name + "}, ";
  };
  for (const char* name : {"a", "b", "c", "d"}) add(name);
  const std::string first = "'a' (tensors[0]); 'b' (tensors[1]); 'c' (tensors[2]); 'd' (tensors[3])";
  CHECK(held("tp=2", rules, 1, others) == first);
  add("e");
  CHECK(held("tp=2", rules, 1, others) == first + "; tensors of one rule more");
  add("f");
  CHECK(held("tp=2", rules, 1, others) == first + "; tensors of 2 rules more");
}
