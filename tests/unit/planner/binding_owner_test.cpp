#include <doctest/doctest.h>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner::test;
using reshard::planner::BoundOwner;
using reshard::planner::BoundPlan;
using reshard::planner::BoundTensor;

namespace {

const BoundOwner& target_owner(const BoundPlan& plan, std::string_view name) {
  return plan.layouts[tensor(plan, name).layout].target_placement.owners.at(0);
}

}  // namespace

TEST_CASE("experts that every rank numbers from 0 get global numbers") {
  const auto source = catalog(2, {everywhere("experts.0.w", 2, {2, 2}), everywhere("experts.1.w", 2, {2, 2})});
  const auto yaml = [](std::string_view target) {
    return fmt::format(
        "{{reshard: 1, source: {{axes: [ep=2]}}, target: {}, tensors: [{{match: 'experts.*.w', owner: {{ep: {{index: "
        "$1, "
        "count: 4, numbering: local}}}}}}]}}",
        target);
  };
  const BoundPlan full = bound(yaml("{axes: []}"), source);
  REQUIRE(full.tensors.size() == 4);
  CHECK(full.tensors[0].source_name == "experts.0.w");
  CHECK(full.tensors[0].source_stored_name() == "experts.0.w");
  CHECK(source_shards(full, "experts.0.w") == Shards{"[0-2, 0-2]", "-"});
  CHECK(full.tensors[2].source_name == "experts.2.w");
  CHECK(full.tensors[2].source_stored_name() == "experts.0.w");
  CHECK(full.tensors[2].target_name == "experts.2.w");
  CHECK(full.tensors[2].target_stored_name() == "experts.2.w");
  CHECK(source_shards(full, "experts.2.w") == Shards{"-", "[0-2, 0-2]"});
  CHECK(full.layouts.size() == 2);

  const BoundPlan wide = bound(yaml("{axes: [ep=4]}"), source);
  REQUIRE(wide.tensors.size() == 4);
  for (int i = 0; i < 4; ++i) {
    CHECK(wide.tensors[static_cast<std::size_t>(i)].target_name == fmt::format("experts.{}.w", i));
    CHECK(wide.tensors[static_cast<std::size_t>(i)].target_stored_name() == "experts.0.w");
  }
  CHECK(target_shards(wide, "experts.2.w") == Shards{"-", "-", "[0-2, 0-2]", "-"});
  CHECK(target_owner(wide, "experts.2.w") == BoundOwner{"ep", {2}, 4});
}

TEST_CASE("files numbered locally under a rule with global numbers are on the wrong ranks") {
  const auto source = catalog(2, {everywhere("experts.0.w", 2, {2, 2}), everywhere("experts.1.w", 2, {2, 2})});
  CHECK(refusal("{reshard: 1, source: {axes: [ep=2]}, target: {axes: []}, tensors: [{match: 'experts.*.w', owner: {ep: "
                "$1/4}}]}",
                source) == Lines{"E_MISSING: p.yaml:1: tensors[0]: tensor 'experts.0.w': stored on rank 1; by `owner` "
                                 "it belongs on rank 0 (and 1 more tensor of this rule)",
                                 "E_MISSING: p.yaml:1: tensors[0]: tensor 'experts.2.w': no rank stores it; on axis "
                                 "'ep' `owner` counts $1 from 0 to 3, and tensors like 'experts.0.w' lack 2 to 3: "
                                 "'experts.2.w', 'experts.3.w'; add what is missing, correct the count, or give a "
                                 "pattern that does not match these "
                                 "numbers (and 1 more tensor of this rule)"});
  const auto layers = catalog(2, {everywhere("layers.0.w", 2, {2, 2}), everywhere("layers.1.w", 2, {2, 2})});
  CHECK(refusal("{reshard: 1, source: {axes: [pp=2]}, target: {axes: []}, tensors: [{match: 'layers.*.w', owner: {pp: "
                "$1/4}}]}",
                layers) == Lines{"E_MISSING: p.yaml:1: tensors[0]: tensor 'layers.0.w': stored on rank 1; by `owner` "
                                 "it belongs on rank 0; on axis 'pp' no tensor has "
                                 "number 2 to 3 (of 0 to 3) (and 1 more tensor of this rule)"});
  const auto inner = catalog(2, {everywhere("layers.1.w", 2, {2, 2}), everywhere("layers.2.w", 2, {2, 2})});
  CHECK(
      refusal("{reshard: 1, source: {axes: [pp=2]}, target: {axes: []}, tensors: [{match: 'layers.*.w', owner: {pp: "
              "$1/4}}]}",
              inner) ==
      Lines{"E_MISSING: p.yaml:1: tensors[0]: tensor 'layers.1.w': stored on rank 1; by `owner` it belongs on rank 0; "
            "on axis 'pp' no tensor has number 0, 3 (of 0 to 3)",
            "E_MISSING: p.yaml:1: tensors[0]: tensor 'layers.2.w': stored on rank 0; by `owner` it belongs on rank 1; "
            "on axis 'pp' no tensor has number 0, 3 (of 0 to 3)"});
}

TEST_CASE("expert slices live where both axes of their view say") {
  const auto source =
      catalog(4, {by_rank("e.0.fc2", {Shape{4, 4}, Shape{4, 4}}), by_rank("e.1.fc2", {Shape{4, 4}, Shape{4, 4}}),
                  by_rank("e.2.fc2", {{}, {}, Shape{4, 4}, Shape{4, 4}}),
                  by_rank("e.3.fc2", {{}, {}, Shape{4, 4}, Shape{4, 4}})});
  const BoundPlan plan = bound(R"(
reshard: 1
source: {axes: [dp=2, tp=2], views: {expert: [ep=2, etp=2]}}
target: {axes: [tp=4], views: {expert: [ep=4, etp=1]}}
tensors:
  - {match: "e.*.fc2", view: expert, owner: {ep: $1/4}, shard: {1: etp}}
)",
                               source);
  CHECK(source_shards(plan, "e.2.fc2") == Shards{"-", "-", "[0-4, 0-4]", "[0-4, 4-8]"});
  CHECK(target_shards(plan, "e.2.fc2") == Shards{"-", "-", "[0-4, 0-8]", "-"});
  const auto& placement = plan.layouts[tensor(plan, "e.2.fc2").layout].target_placement;
  CHECK(placement.view == "expert");
  CHECK(placement.dims == std::vector<layout::DimCut>(2));
  CHECK(
      lines(plan.warnings) ==
      Lines{
          "W_AXIS_IDLE: p.yaml: source axis 'dp' of size 2 cuts nothing: it makes copies",
          "W_AXIS_IDLE: p.yaml: source axis 'tp' of size 2 cuts nothing: every tensor is stored once per coordinate",
          "W_AXIS_IDLE: p.yaml: target axis 'tp' of size 4 cuts nothing: every tensor is stored once per coordinate"});
}

TEST_CASE("uneven stages take their shares") {
  std::vector<planner::SourceTensor> tensors;
  for (int i = 0; i < 10; ++i) tensors.push_back(everywhere(fmt::format("layers.{}.w", i), 1, {1}));
  const auto yaml = [](std::string_view axes, std::string_view owner) {
    return fmt::format(
        "{{reshard: 1, source: {{}}, target: {{axes: [{}]}}, tensors: [{{match: 'layers.*.w', owner: {{pp: {}}}}}]}}",
        axes, owner);
  };
  const auto stages = [&](const BoundPlan& plan) {
    std::string out;
    for (int i = 0; i < 10; ++i) {
      const Shards held = target_shards(plan, fmt::format("layers.{}.w", i));
      for (std::size_t stage = 0; stage < held.size(); ++stage)
        if (held[stage] != "-") out += std::to_string(stage);
    }
    return out;
  };
  CHECK(stages(bound(yaml("pp=3", "{index: $1, split: [4, 3, 3]}"), catalog(1, tensors))) == "0000111222");
  CHECK(stages(bound(yaml("pp=4", "{index: $1, split: [3, 3, 2, 2]}"), catalog(1, tensors))) == "0001112233");
  CHECK(stages(bound(yaml("pp=3", "{index: $1, split: [0, 7, 3]}"), catalog(1, tensors))) == "1111111222");
  const BoundPlan local = bound(yaml("pp=3", "{index: $1, split: [4, 3, 3], numbering: local}"), catalog(1, tensors));
  CHECK(tensor(local, "layers.3.w").target_stored_name() == "layers.3.w");
  CHECK(tensor(local, "layers.4.w").target_stored_name() == "layers.0.w");
  CHECK(tensor(local, "layers.9.w").target_stored_name() == "layers.2.w");
}

TEST_CASE("stages of a source go back together, and a wrong mesh order is noticed") {
  // Ranks of [pp=2, cp=2, tp=2]: layer 0 on ranks 0 to 3, layer 1 on ranks 4 to 7.
  const Shape half{2, 1};
  const auto source = catalog(8, {by_rank("layers.0.w", {half, half, half, half}),
                                  by_rank("layers.1.w", {{}, {}, {}, {}, half, half, half, half})});
  const auto yaml = [](std::string_view axes) {
    return fmt::format(
        "{{reshard: 1, source: {{axes: {}}}, target: {{axes: []}}, tensors: [{{match: 'layers.*.w', shard: {{0: tp}}, "
        "owner: "
        "{{pp: $1/2}}}}]}}",
        axes);
  };
  const BoundPlan plan = bound(yaml("[pp=2, cp=2, tp=2]"), source);
  CHECK(source_shards(plan, "layers.1.w") ==
        Shards{"-", "-", "-", "-", "[0-2, 0-1]", "[2-4, 0-1]", "[0-2, 0-1]", "[2-4, 0-1]"});
  CHECK(refusal(yaml("[cp=2, pp=2, tp=2]"), source) ==
        Lines{"E_MISSING: p.yaml:1: tensors[0]: tensor 'layers.0.w': not stored on "
              "ranks 4 to 5, but stored on ranks 2 to 3; by `owner` "
              "it belongs on ranks 0 to 1, 4 to 5",
              "E_MISSING: p.yaml:1: tensors[0]: tensor 'layers.1.w': not stored on "
              "ranks 2 to 3, but stored on ranks 4 to 5; by `owner` "
              "it belongs on ranks 2 to 3, 6 to 7"});
}

TEST_CASE("tied copies live on each coordinate that is named") {
  const BoundPlan plan = bound(
      "{reshard: 1, source: {}, target: {axes: [pp=4]}, tensors: [{match: embed, owner: {pp: {index: [0, 31], count: "
      "32}}}]}",
      catalog(1, {everywhere("embed", 1, {4})}));
  CHECK(target_shards(plan, "embed") == Shards{"[0-4]", "-", "-", "[0-4]"});
  CHECK(target_owner(plan, "embed") == BoundOwner{"pp", {0, 3}, 4});
}

TEST_CASE("a tensor that one rank lacks is missing unless an owner says so") {
  CHECK(refusal("{reshard: 1, source: {axes: [tp=4]}, target: {}, tensors: [{match: n}]}",
                catalog(4, {by_rank("n", {Shape{4}, {}, Shape{4}, {}})})) ==
        Lines{"E_MISSING: p.yaml:1: tensors[0]: tensor 'n': not stored on ranks 1, 3; without `owner` every rank must "
              "have it"});
}

TEST_CASE("numbers beyond the count, and names without a number, are refused") {
  constexpr std::string_view kPlan =
      "{reshard: 1, source: {}, target: {axes: [ep=2]}, tensors: [{match: 'e.*.w', owner: {ep: $1/4}}]}";
  CHECK(refusal(kPlan, catalog(1, {everywhere("e.3.w", 1, {2}), everywhere("e.4.w", 1, {2})})) ==
        Lines{"E_OWNER: p.yaml:1: tensors[0]: tensor 'e.4.w': owner: number 4 on axis 'ep', expected 0 to 3"});
  CHECK(refusal(kPlan, catalog(1, {everywhere("e.8.w", 1, {2}), everywhere("e.9.w", 1, {2})})) ==
        Lines{"E_OWNER: p.yaml:1: tensors[0]: tensor 'e.8.w': owner: number 8 on axis 'ep', expected 0 to 3 (and 1 "
              "more tensor of "
              "this rule)"});
  CHECK(refusal(kPlan, catalog(1, {everywhere("e.x.w", 1, {2})})) ==
        Lines{"E_OWNER: p.yaml:1: tensors[0]: tensor 'e.x.w': $1 is 'x', owner of axis 'ep' needs a number"});
  CHECK(
      codes(
          "{reshard: 1, source: {axes: [ep=2]}, target: {}, tensors: [{match: 'e.*.w', owner: {ep: {index: $1, count: "
          "2, numbering: local}}}]}",
          catalog(2, {everywhere("e.1.w", 2, {2})})) == Lines{"E_OWNER e.1.w"});
}

TEST_CASE("stages and experts may both count locally, at any width") {
  // pp=2 x ep=2: one layer and one expert per rank; zero-padded expert numbers stay as wide.
  const auto source = catalog(4, {everywhere("l.0.e.00.w", 4, {2})});
  const BoundPlan plan = bound(R"(
reshard: 1
source: {axes: [pp=2, ep=2]}
target: {axes: []}
tensors:
  - match: "l.*.e.*.w"
    owner: {pp: {index: $1, count: 2, numbering: local}, ep: {index: $2, count: 2, numbering: local}}
)",
                               source);
  Lines names;
  for (const BoundTensor& bound_tensor : plan.tensors) names.push_back(bound_tensor.source_name);
  CHECK(names == Lines{"l.0.e.00.w", "l.0.e.01.w", "l.1.e.00.w", "l.1.e.01.w"});
  CHECK(source_shards(plan, "l.1.e.00.w") == Shards{"-", "-", "[0-2]", "-"});
}

TEST_CASE("local numbers of an expression that matches no other are found by their only place") {
  const BoundPlan plan = bound(R"(
reshard: 1
source: {axes: [ep=2]}
target: {axes: []}
tensors:
  - {match: "re:e\\.([01])\\.w", owner: {ep: {index: $1, count: 4, numbering: local}}, rename: "x.$1"}
)",
                               catalog(2, {everywhere("e.0.w", 2, {2}), everywhere("e.1.w", 2, {2})}));
  Lines names;
  for (const BoundTensor& bound_tensor : plan.tensors)
    names.push_back(bound_tensor.source_name + " " + bound_tensor.target_name);
  CHECK(names == Lines{"e.0.w x.0", "e.1.w x.1", "e.2.w x.2", "e.3.w x.3"});
}

TEST_CASE("layers of one stage share their layouts") {
  std::vector<planner::SourceTensor> tensors;
  for (int i = 0; i < 32; ++i) tensors.push_back(everywhere(fmt::format("layers.{}.w", i), 1, {8}));
  const BoundPlan plan = bound(
      "{reshard: 1, source: {}, target: {axes: [pp=4, tp=2]}, tensors: [{match: 'layers.*.w', shard: {0: tp}, owner: "
      "{pp: "
      "$1/32}}]}",
      catalog(1, tensors));
  CHECK(plan.tensors.size() == 32);
  CHECK(plan.layouts.size() == 4);
}
