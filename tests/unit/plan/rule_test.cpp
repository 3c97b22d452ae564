#include "reshard/plan/rule.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "reshard/base/json.hpp"
#include "reshard/plan/canonical.hpp"
#include "unit/plan/support.hpp"

using namespace reshard;
using namespace reshard::plan;
using namespace reshard::test;

namespace {

constexpr const char* kHead =
    "reshard: 1\nsource: {axes: [pp=2, tp=2], views: {expert: [ep=2, etp=2]}}\n"
    "target: {axes: [dp=2, tp=4]}\ntensors:\n  - ";

Rule rule_of(const std::string& rule) {
  return read_yaml(kHead + rule + "\n").rules.at(0);
}

/// One side's words after reading, as a plan would say them.
std::string side_of(const std::string& rule, const char* side) {
  const ParallelPlan plan = read_yaml(kHead + rule + "\n");
  return canonical_json(*plan.canonical.find("tensors")->array()[0].find(side));
}

std::string source_of(const std::string& rule) {
  return side_of(rule, "source");
}
std::string target_of(const std::string& rule) {
  return side_of(rule, "target");
}

}  // namespace

TEST_CASE("a rule keeps its number, place, names and flags") {
  const Rule rule = rule_of("{match: \"*.w\", rename: \"x.$1\", dtype: bf16, optional: true, drop: false}");
  CHECK(rule.number == 0);
  CHECK(rule.position == Position{5, 5});
  CHECK(rule.match.text() == "*.w");
  CHECK(rule.rename == "x.$1");
  CHECK(rule.dtype == Dtype::kBf16);
  CHECK(rule.optional);
  CHECK_FALSE(rule.drop);
  CHECK(rule.source.shard.empty());
  CHECK(rule.target.shard.empty());
}

TEST_CASE("an override is merged into a dim key by key, a name or list replaces it, null removes") {
  const std::string base = "{match: w, shard: {0: {axes: tp, unit: 8, fallback: repeat}, 1: dp}, target: {shard: ";
  CHECK(source_of(base + "{}}}") ==
        R"({"shard":{"0":{"axes":["tp"],"fallback":"repeat","unit":8},"1":{"axes":["dp"]}}})");
  CHECK(target_of(base + "{}}}") ==
        R"({"shard":{"0":{"axes":["tp"],"fallback":"repeat","unit":8},"1":{"axes":["dp"]}}})");
  CHECK(target_of(base + "{0: {unit: 4}}}}") ==
        R"({"shard":{"0":{"axes":["tp"],"fallback":"repeat","unit":4},"1":{"axes":["dp"]}}})");
  CHECK(target_of(base + "{0: {fallback: null}}}}") ==
        R"({"shard":{"0":{"axes":["tp"],"unit":8},"1":{"axes":["dp"]}}})");
  CHECK(target_of(base + "{1: {split: chunk}}}}") ==
        R"({"shard":{"0":{"axes":["tp"],"fallback":"repeat","unit":8},"1":{"axes":["dp"],"split":"chunk"}}})");
  CHECK(target_of(base + "{0: dp, 1: tp}}}") == R"({"shard":{"0":{"axes":["dp"]},"1":{"axes":["tp"]}}})");
  CHECK(target_of(base + "{0: [tp, dp], 1: null}}}") == R"({"shard":{"0":{"axes":["tp","dp"]}}})");
  CHECK(target_of(base + "{0: null, 2: tp}}}") == R"({"shard":{"1":{"axes":["dp"]},"2":{"axes":["tp"]}}})");
  CHECK(target_of(base + "null}}") == "{}");
  CHECK(source_of(base + "null}}") ==
        R"({"shard":{"0":{"axes":["tp"],"fallback":"repeat","unit":8},"1":{"axes":["dp"]}}})");
}

TEST_CASE("an override replaces place, members, view and owner, and place and shard remove each other") {
  CHECK(target_of("{match: w, shard: {0: tp}, target: {place: {dp: shard(1)}}}") ==
        R"({"shard":{"1":{"axes":["dp"]}}})");
  CHECK(target_of("{match: w, place: {tp: shard(0)}, target: {shard: {1: {axes: dp}}}}") ==
        R"({"shard":{"1":{"axes":["dp"]}}})");
  CHECK(target_of("{match: w, place: {tp: shard(0)}, target: {place: null}}") == "{}");
  CHECK(target_of("{match: w, owner: {pp: \"0/2\"}, target: {owner: {dp: \"1/4\"}}}") ==
        R"({"owner":{"dp":{"count":4,"index":1}}})");
  CHECK(target_of("{match: w, owner: {pp: \"0/2\"}, target: {owner: null}}") == "{}");
  CHECK(target_of("{match: w, view: expert, shard: {0: etp}, target: {view: null, shard: {0: tp}}}") ==
        R"({"shard":{"0":{"axes":["tp"]}}})");
  CHECK(target_of("{match: w, members: {a: x y, b: x}, shard: {x: tp}, target: {members: {a: x, b: x/4}}}") ==
        R"({"members":{"a":"x","b":"x/4"},"shard":{"x":{"axes":["tp"]}}})");
}

TEST_CASE("a rule's axes belong to its view where a side defines it") {
  const Rule rule = rule_of("{match: \"*.w\", view: expert, owner: {ep: $1/8}, shard: {0: etp}}");
  CHECK(rule.source.view == "expert");
  CHECK(rule.source.shard[0].cut.levels[0].axis_size == 2);
  CHECK(rule.source.owners == std::vector<OwnerRule>{{"ep", 2, 1, {}, 8, {}, false}});
  CHECK(rule.target.shard[0].cut.levels[0].axis_size == 1);
  CHECK(rule.target.owners == std::vector<OwnerRule>{{"ep", 1, 1, {}, 8, {}, false}});
}

TEST_CASE("axis-first placements become levels in mesh order") {
  const auto shard = [](const std::string& place) {
    const ParallelPlan plan =
        read_yaml("{reshard: 1, target: {axes: [a=2, b=3, c=4]}, tensors: [{match: w, place: " + place + "}]}");
    return canonical_json(*plan.canonical.find("tensors")->array()[0].find("target"));
  };
  CHECK(shard("{}") == "{}");
  CHECK(shard("{c: shard(0), a: replicate}") == R"({"shard":{"0":{"axes":["c"]}}})");
  CHECK(shard("{b: shard(1), a: shard(0)}") == R"({"shard":{"0":{"axes":["a"]},"1":{"axes":["b"]}}})");
  CHECK(shard("{c: shard(0), a: shard(0)}") == R"({"shard":{"0":{"axes":["a","c"]}}})");
  CHECK(shard("{a: \"shard(-1, chunk)\"}") == R"({"shard":{"-1":{"axes":["a"],"split":"chunk"}}})");
  CHECK(shard("{a: \"strided_shard(0, 4)\", b: \"strided_shard( 0,4 )\", c: shard(0)}") ==
        R"({"shard":{"0":{"axes":["a",{"axis":"b","stride":4},"c"],"stride":4}}})");
}

TEST_CASE("a group has members with named dims and divisors") {
  const Rule rule = rule_of(
      "{match: \"**.mlp\", shard: {ffn: tp}, members: {gate_proj.weight: ffn in, scale: ffn/128 in/128, \"bias?\": "
      "ffn, shape: ., one: \"\"}}");
  const std::vector<Member> members = {{"gate_proj.weight", false, {{"ffn", 1}, {"in", 1}}},
                                       {"scale", false, {{"ffn", 128}, {"in", 128}}},
                                       {"bias", true, {{"ffn", 1}}},
                                       {"shape", false, {{"", 1}}},
                                       {"one", false, {}}};
  CHECK(rule.source.members == members);
  CHECK(rule.target.members == members);
  CHECK(rule.target.shard[0].dim == "ffn");
}

TEST_CASE("a projection is a group of weight and bias") {
  CHECK(target_of("{match: l, projection: column}") ==
        R"({"members":{"bias?":"out","weight":"out in"},"shard":{"out":{"axes":["tp"]}}})");
  CHECK(target_of("{match: l, projection: row}") ==
        R"({"members":{"bias?":"out","weight":"out in"},"shard":{"in":{"axes":["tp"]}}})");
  CHECK(
      target_of("{match: l, projection: column, shard: {out: {unit: 128}, in: dp}}") ==
      R"({"members":{"bias?":"out","weight":"out in"},"shard":{"in":{"axes":["dp"]},"out":{"axes":["tp"],"unit":128}}})");
  CHECK(target_of("{match: l, projection: column, target: {shard: {out: {unit: 4}}}}") ==
        R"({"members":{"bias?":"out","weight":"out in"},"shard":{"out":{"axes":["tp"],"unit":4}}})");
}

TEST_CASE("an owner is a capture, a number or several, in equal or uneven shares") {
  const auto owners = [](const std::string& owner) {
    return rule_of("{match: \"*.*\", owner: {pp: " + owner + "}}").source.owners;
  };
  using Owners = std::vector<OwnerRule>;
  CHECK(owners("$2/8") == Owners{{"pp", 2, 2, {}, 8, {}, false}});
  CHECK(owners("\"31/32\"") == Owners{{"pp", 2, {}, {31}, 32, {}, false}});
  CHECK(owners("{index: $1, count: 32, numbering: local}") == Owners{{"pp", 2, 1, {}, 32, {}, true}});
  CHECK(owners("{index: $1, count: 32, numbering: global}") == Owners{{"pp", 2, 1, {}, 32, {}, false}});
  CHECK(owners("{index: 3, count: 4}") == Owners{{"pp", 2, {}, {3}, 4, {}, false}});
  CHECK(owners("{index: [0, 31], count: 32}") == Owners{{"pp", 2, {}, {0, 31}, 32, {}, false}});
  CHECK(owners("{index: $1, split: [9, 8]}") == Owners{{"pp", 2, 1, {}, 17, {9, 8}, false}});
  CHECK(owners("{index: $1, split: [9, 8], count: 17}") == Owners{{"pp", 2, 1, {}, 17, {9, 8}, false}});
}

TEST_CASE("uneven shares of one side mean nothing on a side without the axis") {
  const Rule rule = rule_of("{match: \"*\", owner: {pp: {index: $1, split: [4, 3]}}}");
  CHECK(rule.target.owners == std::vector<OwnerRule>{{"pp", 1, 1, {}, 7, {}, false}});
}

TEST_CASE("a manifest's placement is read as it was written") {
  const Side side = read_side(parse_json(R"({"axes": ["pp=2", "tp=4"], "views": {"expert": ["ep=2", "etp=4"]}})", "m"),
                              Role::kSource, "m");
  const std::string text =
      R"({"owner":{"ep":{"count":8,"index":3}},"shard":{"0":{"axes":["etp"],"segments":[8,8]}},"view":"expert"})";
  const Placement placement = read_placement(parse_json(text, "m"), side, "m");
  CHECK(placement.view == "expert");
  CHECK(placement.owners == std::vector<OwnerRule>{{"ep", 2, {}, {3}, 8, {}, false}});
  REQUIRE(placement.shard.size() == 1);
  CHECK(placement.shard[0].dim == "0");
  CHECK(canonical_json(dim_value(placement.shard[0].cut)) == R"({"axes":["etp"],"segments":[8,8]})");
  const Placement whole = read_placement(parse_json(R"({"view": null, "shard": {}, "owner": null})", "m"), side, "m");
  CHECK(whole.shard.empty());
  CHECK_THROWS_AS(read_placement(parse_json(R"({"shard": {"0": "dp"}})", "m"), side, "m"), Error);
}

TEST_CASE("every cut is read back from the value that says it") {
  for (
      const std::string entry : {
          R"({"axes":["tp"]})",
          R"({"axes":["tp","dp"],"pad_to":16,"segments":[8,8],"size":16})",
          R"({"axes":["tp",{"axis":"dp","split":"chunk"},"pp"],"pad_rows":3,"unit":4})",
          R"({"axes":[{"axis":"tp","pad_to":4},"dp"]})",
          R"({"axes":["dp"],"fallback":"repeat","segments":[4,{"fallback":"error","size":8,"unit":2}],"unit":2})",
          R"({"axes":["dp"],"split":[3,1]})",
          R"({"axes":["dp"],"fill":"last","pad_total":8,"size":101})",
          R"({"axes":["dp","tp"],"block":2,"layout":"striped"})",
          R"({"axes":["dp"],"layout":"zigzag","packed":{"cu_seqlens":[0,3,8],"cu_seqlens_padded":"t"},"pad_value":-0.5,"padding":"forbid"})",
      }) {
    CAPTURE(entry);
    CHECK(target_of("{match: w, shard: {0: " + entry + "}}") == R"({"shard":{"0":)" + entry + "}}");
  }
}
