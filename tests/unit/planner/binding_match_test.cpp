#include <doctest/doctest.h>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner::test;
using reshard::planner::BoundPlan;
using reshard::planner::SourceTensor;

TEST_CASE("the first rule that matches a tensor wins") {
  const BoundPlan plan = bound(R"(
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors:
  - {match: "a.w"}
  - {match: "**.w", shard: {0: tp}}
)",
                               catalog(1, {everywhere("a.w", 1, {4}), everywhere("b.w", 1, {4})}));
  CHECK(tensor(plan, "a.w").rule == 0);
  CHECK(tensor(plan, "b.w").rule == 1);
  CHECK(target_shards(plan, "a.w") == Shards{"[0-4]", "[0-4]"});
  CHECK(target_shards(plan, "b.w") == Shards{"[0-2]", "[2-4]"});
}

TEST_CASE("tensors of one shape under one rule share their layouts") {
  const auto source = catalog(1, {everywhere("a", 1, {4}), everywhere("b", 1, {4}), everywhere("c", 1, {8})});
  const BoundPlan plan =
      bound("{reshard: 1, source: {}, target: {axes: [tp=2]}, tensors: [{match: \"*\", shard: {0: tp}}]}", source);
  CHECK(plan.layouts.size() == 2);
  CHECK(tensor(plan, "a").layout == tensor(plan, "b").layout);
}

TEST_CASE("missing and unexpected tensors are reported together") {
  const auto source = catalog(1, {everywhere("a", 1, {2}), everywhere("b", 1, {2}), everywhere("d", 1, {2})});
  CHECK(
      refusal("{reshard: 1, source: {}, target: {axes: []}, tensors: [{match: a}, {match: b}, {match: c}]}", source) ==
      Lines{"E_RULE_UNUSED: p.yaml:1: tensors[2]: 'c' matches none of the 3 tensors of the source; where that is fine "
            "say "
            "`optional: true`",
            "E_TENSOR_UNMATCHED: p.yaml: tensor 'd': none of the 3 rules matches; add a rule, or say `unmatched: "
            "replicate` or `unmatched: drop`"});
}

TEST_CASE("each of the relaxations excuses one side and is counted") {
  const auto source = catalog(1, {everywhere("a", 1, {2}), everywhere("b", 1, {2}), everywhere("d", 1, {2})});
  constexpr std::string_view kRules =
      "{reshard: 1, source: {}, target: {axes: []}, tensors: [{match: a}, {match: b}, {match: c}]}";
  const auto with = [&](bool extra, bool missing) {
    plan::PlanOptions options;
    options.allow_extra = extra;
    options.allow_missing = missing;
    return plan::read_plan(kRules, plan::Notation::kYaml, "p.yaml", options);
  };
  CHECK_THROWS_AS(planner::bind(with(true, false), source, no_numbers), Error);
  CHECK_THROWS_AS(planner::bind(with(false, true), source, no_numbers), Error);
  const BoundPlan plan = planner::bind(with(true, true), source, no_numbers);
  CHECK(plan.tensors.size() == 2);
  CHECK(plan.dropped == Lines{"d"});
  CHECK(plan.dropped_unmatched == 1);
  CHECK(plan.unused_optional_rules == 1);
}

TEST_CASE("a plan with another prefix is told the names that are there") {
  const auto source = catalog(
      1, {everywhere("module.layers.0.q_proj.weight", 1, {2}), everywhere("module.layers.1.q_proj.weight", 1, {2})});
  CHECK(
      refusal(R"(
reshard: 1
source: {}
target: {axes: []}
tensors:
  - {match: "model.layers.*.q_proj.weight"}
  - {match: "model.layers.*.mlp", members: {weight: out in}}
)",
              source) ==
      Lines{
          "E_RULE_UNUSED: p.yaml:6: tensors[0]: 'model.layers.*.q_proj.weight' matches none of the 2 tensors of "
          "the source; "
          "nearest: 'module.layers.0.q_proj.weight'; where that is fine say `optional: true`",
          "E_RULE_UNUSED: p.yaml:7: tensors[1]: 'model.layers.*.mlp' matches none of the 2 tensors of the source; "
          "nearest: "
          "'module.layers.0.q_proj.weight'; where that is fine say `optional: true`",
          "E_TENSOR_UNMATCHED: p.yaml: tensor 'module.layers.0.q_proj.weight': none of the 2 rules matches; nearest: "
          "tensors[0] 'model.layers.*.q_proj.weight'; add a rule, or say `unmatched: replicate` or `unmatched: drop`",
          "E_TENSOR_UNMATCHED: p.yaml: tensor 'module.layers.1.q_proj.weight': none of the 2 rules matches; nearest: "
          "tensors[0] 'model.layers.*.q_proj.weight'; add a rule, or say `unmatched: replicate` or `unmatched: drop`"});
}

TEST_CASE("a rule behind a greedier one is told who took its tensors") {
  const auto source = catalog(1, {everywhere("a.w", 1, {4}), everywhere("b.w", 1, {4})});
  CHECK(refusal("{reshard: 1, source: {}, target: {axes: []}, tensors: [{match: '**'}, {match: a.w}]}", source) ==
        Lines{"E_RULE_UNUSED: p.yaml:1: tensors[1]: 'a.w' wins for no tensor: what it matches is taken (1 tensor by "
              "tensors[0]); the "
              "first rule that matches wins"});
}

TEST_CASE("tensors without a rule are all named, or dropped, or replicated and said so") {
  const auto source = catalog(1, {everywhere("m.up_proj.weight", 1, {8, 4}), everywhere("down_proj", 1, {4, 8}),
                                  everywhere("x.layer_norm_weight", 1, {4})});
  const auto yaml = [](std::string_view unmatched) {
    return fmt::format(
        "{{reshard: 1, unmatched: {}, source: {{}}, target: {{axes: [tp=2]}}, tensors: [{{match: "
        "'**.{{gate,up}}_proj.weight', "
        "shard: {{0: tp}}}}]}}",
        unmatched);
  };
  CHECK(codes(yaml("error"), source) ==
        Lines{"E_TENSOR_UNMATCHED down_proj", "E_TENSOR_UNMATCHED x.layer_norm_weight"});
  const BoundPlan dropped = bound(yaml("drop"), source);
  CHECK(dropped.dropped == Lines{"down_proj", "x.layer_norm_weight"});
  CHECK(dropped.dropped_unmatched == 2);
  const BoundPlan replicated = bound(yaml("replicate"), source);
  CHECK(target_shards(replicated, "down_proj") == Shards{"[0-4, 0-8]", "[0-4, 0-8]"});
  CHECK(tensor(replicated, "down_proj").rule == planner::kNoRule);
  CHECK(lines(replicated.warnings) ==
        Lines{"W_FALLBACK: p.yaml: no rule matches: whole on every rank (`unmatched: replicate`): 'down_proj', "
              "'x.layer_norm_weight'"});
}

TEST_CASE("many tensors without a rule are one line per form of their names") {
  std::vector<SourceTensor> tensors{everywhere("a", 1, {2})};
  for (int i = 0; i < 100; ++i) tensors.push_back(everywhere(fmt::format("layers.{}.w", i), 1, {2}));
  CHECK(refusal("{reshard: 1, source: {}, target: {axes: []}, tensors: [{match: a}]}", catalog(1, tensors)) ==
        Lines{"E_TENSOR_UNMATCHED: p.yaml: tensor 'layers.0.w': the only rule does not match it, nor the other 99 of "
              "the form "
              "'layers.*.w'; add a rule, or say `unmatched: replicate` or `unmatched: drop`"});
}

TEST_CASE("an adapter that the base pattern does not cover is not guessed") {
  const auto source =
      catalog(1, {everywhere("fc1.weight", 1, {8, 2}), everywhere("fc1.adapter.linear_out.weight", 1, {8, 2})});
  CHECK(codes("{reshard: 1, source: {}, target: {axes: [tp=2]}, tensors: [{match: fc1.weight, shard: {0: {axes: tp, "
              "segments: [4, 4]}}}]}",
              source) == Lines{"E_TENSOR_UNMATCHED fc1.adapter.linear_out.weight"});
  const BoundPlan plan = bound(
      "{reshard: 1, source: {}, target: {axes: [tp=2]}, tensors: [{match: 'fc1**.weight', shard: {0: {axes: tp, "
      "segments: [4, 4]}}}]}",
      source);
  CHECK(target_shards(plan, "fc1.adapter.linear_out.weight") == Shards{"[0-2 4-6, 0-2]", "[2-4 6-8, 0-2]"});
  CHECK(tensor(plan, "fc1.weight").layout == tensor(plan, "fc1.adapter.linear_out.weight").layout);
  CHECK(plan.layouts.size() == 1);
}

TEST_CASE("what is no tensor is refused where a rule would move it, and left out otherwise") {
  SourceTensor text{
      "notes", {}, std::make_shared<const Issue>(Issue{ErrorCode::kFormat, "", kNoTensor, "a dataset of strings"})};
  const auto source = catalog(1, {text, everywhere("w", 1, {2})});
  CHECK(refusal("{reshard: 1, source: {}, target: {axes: []}, tensors: [{match: '**'}]}", source) ==
        Lines{"E_FORMAT: p.yaml:1: tensors[0]: tensor 'notes': a dataset of strings"});
  CHECK(codes("{reshard: 1, source: {}, target: {axes: []}, tensors: [{match: w}]}", source) ==
        Lines{"E_TENSOR_UNMATCHED notes"});
  CHECK(bound("{reshard: 1, source: {}, target: {axes: []}, tensors: [{match: notes, drop: true}, {match: w}]}", source)
            .dropped == Lines{"notes"});
  CHECK(bound("{reshard: 1, unmatched: drop, source: {}, target: {axes: []}, tensors: [{match: w}]}", source).dropped ==
        Lines{"notes"});
}

TEST_CASE("a name that fits two members belongs to the one with the longest suffix") {
  const BoundPlan plan = bound(R"(
reshard: 1
source: {}
target: {axes: [tp=2]}
tensors:
  - match: "*"
    shard: {out: tp}
    members: {weight: out in, gate.weight: in out}
)",
                               catalog(1, {everywhere("l.gate.weight", 1, {4, 8}), everywhere("l.weight", 1, {8, 4})}));
  CHECK(target_shards(plan, "l.weight") == Shards{"[0-4, 0-4]", "[4-8, 0-4]"});
  CHECK(target_shards(plan, "l.gate.weight") == Shards{"[0-4, 0-4]", "[0-4, 4-8]"});
}

TEST_CASE("dropped tensors are named with their global numbers") {
  const auto source =
      catalog(2, {by_rank("l.0.w", {{{2}}, {{2}}}), by_rank("l.1.w", {{{2}}, {{2}}}), everywhere("keep", 2, {2})});
  CHECK(bound("{reshard: 1, source: {axes: [pp=2]}, target: {axes: []}, tensors: [{match: \"l.*.w\", drop: true, "
              "owner: {pp: {index: $1, count: 4, numbering: local}}}, {match: keep}]}",
              source)
            .dropped == Lines{"l.0.w", "l.2.w", "l.1.w", "l.3.w"});
}
