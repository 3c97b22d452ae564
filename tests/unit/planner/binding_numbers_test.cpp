#include <doctest/doctest.h>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner::test;
using reshard::planner::SourceCatalog;
using reshard::planner::SourceTensor;

namespace {

/// A model of `layers` layers of which the odd ones have experts of three parts each.
std::vector<SourceTensor> mixture(int layers, int experts) {
  std::vector<SourceTensor> out;
  for (int layer = 0; layer < layers; ++layer) {
    out.push_back(everywhere(fmt::format("layers.{}.norm", layer), 1, {2}));
    if (layer % 2 == 0) continue;
    out.push_back(everywhere(fmt::format("layers.{}.gate", layer), 1, {2}));
    for (int expert = 0; expert < experts; ++expert)
      for (const char* part : {"w1", "w2", "w3"})
        out.push_back(everywhere(fmt::format("layers.{}.experts.{}.{}", layer, expert, part), 1, {2}));
  }
  return out;
}

SourceCatalog without(std::vector<SourceTensor> tensors, std::string_view part_of_name) {
  std::erase_if(tensors, [&](const SourceTensor& known) { return known.name.find(part_of_name) != std::string::npos; });
  return catalog(1, std::move(tensors));
}

std::string mixture_plan(std::string_view expert_rule, std::string_view axes = "pp=2, ep=2") {
  return fmt::format(
      "{{reshard: 1, source: {{}}, target: {{axes: [{}]}}, tensors: [{}, {{match: 'layers.*.{{norm,gate}}'}}]}}", axes,
      expert_rule);
}

constexpr std::string_view kExperts = "{match: 'layers.*.experts.*.*', owner: {ep: $2/8, pp: $1/4}}";

}  // namespace

TEST_CASE("an expert that no rank stores is missing, with every tensor that it lacks") {
  CHECK(
      refusal(mixture_plan(kExperts), without(mixture(4, 8), "layers.3.experts.5.")) ==
      Lines{"E_MISSING: p.yaml:1: tensors[0]: tensor 'layers.3.experts.5.w1': no rank stores it; on axis 'ep' "
            "`owner` counts $2 from 0 to 7, and tensors like 'layers.3.experts.0.w1' lack 5: 'layers.3.experts.5.w1', "
            "'layers.3.experts.5.w2', 'layers.3.experts.5.w3'; add what is missing, correct the count, or give a "
            "pattern that does not match these numbers (and 2 more tensors of this rule)"});
  CHECK(codes(mixture_plan(kExperts), without(mixture(4, 8), "layers.3.experts.5.w2")) ==
        Lines{"E_MISSING layers.3.experts.5.w2"});
  CHECK(codes(mixture_plan(kExperts), without(mixture(4, 8), "experts.0.")) ==
        Lines{"E_MISSING layers.1.experts.0.w1"});
}

TEST_CASE("layers without experts lack nothing") {
  CHECK(bound(mixture_plan(kExperts), catalog(1, mixture(4, 8))).tensors.size() == 54);
}

TEST_CASE("a count beyond the experts of the model is refused with the numbers it should not have") {
  const Lines found =
      refusal(mixture_plan("{match: 'layers.*.experts.*.*', owner: {ep: $2/16}}", "ep=2"), catalog(1, mixture(2, 8)));
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("tensor 'layers.1.experts.10.w1': no rank stores it; on axis 'ep' `owner` counts $2 from 0 to "
                      "15, and tensors like 'layers.1.experts.0.w1' lack 8 to 15: 'layers.1.experts.10.w1', ") !=
        std::string::npos);
  CHECK(found[0].find("'layers.1.experts.12.w2', ...; add what is missing") != std::string::npos);
  CHECK(found[0].find("(and 23 more tensors of this rule)") != std::string::npos);
}

TEST_CASE("a count that is no number of tensors is refused in no time") {
  CHECK(codes(mixture_plan("{match: 'layers.*.experts.*.*', owner: {ep: $2/4611686018427387904}}", "ep=2"),
              catalog(1, mixture(2, 8))) == Lines{"E_MISSING layers.1.experts.10.w1"});
}

TEST_CASE("layers may lack a tensor, whatever their axis is called") {
  for (const std::string_view axis : {"pp", "stages"})
    CHECK(codes(mixture_plan(fmt::format("{{match: 'layers.*.experts.*.*', owner: {{{}: $1/4}}}}", axis),
                             fmt::format("{}=2", axis)),
                catalog(1, mixture(4, 8))) == Lines{"accepted"});
  // Chunks of a pipeline stage count layers behind another number.
  CHECK(codes("{reshard: 1, source: {}, target: {axes: [pp=2]}, tensors: [{match: 'model*.layers.*.gate', owner: {pp: "
              "$2/4}}]}",
              catalog(1, {everywhere("model0.layers.1.gate", 1, {2}), everywhere("model1.layers.3.gate", 1, {2})})) ==
        Lines{"accepted"});
  // Layers 0 and 2 have a norm and no gate; a dot at the beginning of a name is no number.
  for (const std::string_view axis : {"pp", "stages"}) {
    CHECK(codes(fmt::format("{{reshard: 1, source: {{}}, target: {{axes: [{}=2]}}, tensors: [{{match: "
                            "'layers.*.{{norm,gate}}', owner: {{{}: $1/4}}}}]}}",
                            axis, axis),
                without(mixture(4, 0), "none")) == Lines{"accepted"});
    CHECK(codes(fmt::format("{{reshard: 1, source: {{}}, target: {{axes: [{}=2]}}, tensors: [{{match: "
                            "'**layers.*.{{norm,gate}}', owner: {{{}: $2/4}}}}]}}",
                            axis, axis),
                catalog(1, {everywhere(".layers.0.norm", 1, {2}), everywhere(".layers.1.norm", 1, {2}),
                            everywhere(".layers.1.gate", 1, {2})})) == Lines{"accepted"});
  }
}

TEST_CASE("on an axis of any name the numbers within a layer are those of other layers and parts") {
  for (const std::string_view match : {"layers.*.experts.*.*", "**.experts.*.*"})
    CHECK(codes(mixture_plan(fmt::format("{{match: '{}', owner: {{moe: $2/8}}}}", match), "moe=2"),
                without(mixture(2, 8), "experts.7.w3")) == Lines{"E_MISSING layers.1.experts.7.w3"});
}

TEST_CASE("an expert of the only layer is missing, too, and so where the owner is the target's alone") {
  const auto source = catalog(
      1, {everywhere("experts.0.w", 1, {2}), everywhere("experts.2.w", 1, {2}), everywhere("experts.3.w", 1, {2})});
  for (const std::string_view owner : {"owner: {ep: $1/4}", "target: {owner: {ep: $1/4}}"})
    CHECK(codes(fmt::format("{{reshard: 1, source: {{}}, target: {{axes: [ep=2]}}, tensors: [{{match: 'experts.*.w', "
                            "{}}}]}}",
                            owner),
                source) == Lines{"E_MISSING experts.1.w"});
}

TEST_CASE("an expert that its rank does not store under its local number is missing") {
  // Expert 3, which ep 1 should store as its number 1.
  const auto source = catalog(2, {everywhere("experts.0.w", 2, {2}), by_rank("experts.1.w", {Shape{2}, {}})});
  CHECK(codes("{reshard: 1, source: {axes: [ep=2]}, target: {}, tensors: [{match: 'experts.*.w', owner: {ep: {index: "
              "$1, count: 4, numbering: local}}}]}",
              source) == Lines{"E_MISSING experts.3.w"});
}

TEST_CASE("what another rule takes or drops, what a pattern does not match, and optional members are not missing") {
  const auto source = catalog(1, mixture(2, 8));
  CHECK(codes(mixture_plan("{match: 'layers.*.experts.0.*', owner: {ep: 0/8}}, {match: 'layers.*.experts.3.*', drop: "
                           "true}, {match: 'layers.*.experts.*.*', owner: {ep: $2/8}}",
                           "ep=2"),
              source) == Lines{"accepted"});
  CHECK(codes(mixture_plan("{match: 'layers.*.experts.{0,1,2,3,4,6,7}.*', owner: {ep: $2/8}}", "ep=2"),
              without(mixture(2, 8), "experts.5.")) == Lines{"accepted"});
  CHECK(codes(mixture_plan("{match: 're:layers\\.(\\d+)\\.(experts\\.(\\d+))\\..*', owner: {ep: $3/8}}", "ep=2"),
              source) == Lines{"accepted"});
}

TEST_CASE("a number that the pattern would not capture is not missing") {
  std::vector<SourceTensor> tensors;
  for (int expert = 0; expert < 10; ++expert) tensors.push_back(everywhere(fmt::format("e.{}.w", expert), 1, {2}));
  CHECK(
      codes(
          R"({reshard: 1, source: {}, target: {axes: [ep=2]}, tensors: [{match: 're:e\.(\d)\d*\.w', owner: {ep: $1/16}}]})",
          catalog(1, tensors)) == Lines{"accepted"});
}

TEST_CASE("what files say of a local number is said of what the source numbers locally alone") {
  constexpr std::string_view kPlan =
      "{{reshard: 1, source: {{axes: [ep=2]}}, target: {{axes: [ep=2]}}, tensors: [{{match: '{}', owner: {{ep: "
      "{{index: "
      "$1, count: 4, numbering: local}}}}, target: {{owner: {{ep: {}}}}}}}]}}";
  const auto lacks = [](const Lines& found) { return found.size() == 1 ? found[0].substr(0, found[0].find(';')) : ""; };
  // Of several that are missing the number of the first one.
  CHECK(lacks(refusal(fmt::format(kPlan, "e.*.w", "$1/4"),
                      catalog(2, {by_rank("e.0.w", {Shape{2}, {}}), by_rank("e.1.w", {Shape{2}, {}})}))) ==
        "E_MISSING: p.yaml:1: tensors[0]: tensor 'e.2.w': no rank stores it (in files of coordinate 1 on 'ep' it is "
        "number 0)");
  // The target counts more experts than the source has.
  CHECK(lacks(refusal(fmt::format(kPlan, "e.*.w", "$1/8"),
                      catalog(2, {everywhere("e.0.w", 2, {2}), everywhere("e.1.w", 2, {2})}))) ==
        "E_MISSING: p.yaml:1: tensors[0]: tensor 'e.4.w': no rank stores it");
  // Or another number of the name.
  CHECK(lacks(refusal(fmt::format(kPlan, "e.*.f.*", "$2/4"),
                      catalog(2, {everywhere("e.0.f.0", 2, {2}), everywhere("e.1.f.0", 2, {2}),
                                  everywhere("e.0.f.1", 2, {2}), everywhere("e.1.f.1", 2, {2}),
                                  everywhere("e.0.f.3", 2, {2}), everywhere("e.1.f.3", 2, {2})}))) ==
        "E_MISSING: p.yaml:1: tensors[0]: tensor 'e.0.f.2': no rank stores it");
}

TEST_CASE("an optional member may be absent from an expert, a required one may not") {
  std::vector<SourceTensor> tensors = {everywhere("e.0.weight", 1, {2}), everywhere("e.0.bias", 1, {2}),
                                       everywhere("e.1.weight", 1, {2})};
  constexpr std::string_view kPlan =
      "{reshard: 1, source: {}, target: {axes: [ep=2]}, tensors: [{match: 'e.*', owner: {ep: $1/2}, members: {weight: "
      "out, 'bias?': out}}]}";
  CHECK(codes(kPlan, catalog(1, tensors)) == Lines{"accepted"});
  tensors.pop_back();
  CHECK(codes(kPlan, catalog(1, tensors)) == Lines{"E_MISSING e.1.weight"});
}

TEST_CASE("numbers of an axis of any name that all groups lack are no expert's of one layer") {
  CHECK(codes("{reshard: 1, source: {}, target: {axes: [stage=2]}, tensors: [{match: 'm.*.l.*.moe', owner: {stage: "
              "$2/4}}]}",
              catalog(1, {everywhere("m.0.l.1.moe", 1, {2}), everywhere("m.0.l.3.moe", 1, {2}),
                          everywhere("m.1.l.1.moe", 1, {2}), everywhere("m.1.l.3.moe", 1, {2})})) == Lines{"accepted"});
}

TEST_CASE("what a regular expression does not capture tells layers apart all the same") {
  const auto source =
      catalog(1, {everywhere("l.0.e.0.w", 1, {2}), everywhere("l.0.e.1.w", 1, {2}), everywhere("l.1.e.0.w", 1, {2})});
  for (const std::string_view match : {R"(re:l\.\d+\.e\.(\d+)\.w)", R"(re:.*\.e\.(\d+)\.w)"})
    CHECK(
        codes(fmt::format("{{reshard: 1, source: {{}}, target: {{axes: [ep=2]}}, tensors: [{{match: '{}', owner: {{ep: "
                          "$1/2}}}}]}}",
                          match),
              source) == Lines{"E_MISSING l.1.e.1.w"});
}

TEST_CASE("a number that no tensor of any rule has is warned of") {
  const auto warnings_of = [](std::string_view rules, const SourceCatalog& source) {
    Lines out;
    const auto plan =
        bound(fmt::format("{{reshard: 1, source: {{}}, target: {{axes: [pp=2]}}, tensors: [{}]}}", rules), source);
    for (const Warning& warning : plan.warnings)
      if (warning.code == "W_COUNT") out.push_back(to_line(warning));
    return out;
  };
  constexpr std::string_view kRule = "{match: 'l.*.w', owner: {pp: $1/4}}";
  const auto hole = catalog(1, {everywhere("l.0.w", 1, {2}), everywhere("l.1.w", 1, {2}), everywhere("l.3.w", 1, {2})});
  CHECK(
      warnings_of(kRule, hole) ==
      Lines{
          "W_COUNT: p.yaml:1: tensors[0]: tensor 'l.2.w': of 0 to 3, which `owner` counts on axis 'pp', no tensor has "
          "number 2: is the checkpoint whole, and the count that of the model?"});
  CHECK(warnings_of("{match: 'l.*.w', owner: {pp: $1/4}, optional: true}", hole).empty());
  // One rule that is required is enough, wherever it stands.
  constexpr std::string_view kOptional = "{match: 'l.*.norm', owner: {pp: $1/4}, optional: true}";
  std::vector<SourceTensor> with_norm = hole.tensors;
  with_norm.push_back(everywhere("l.0.norm", 1, {2}));
  for (const std::string& rules : {fmt::format("{}, {}", kRule, kOptional), fmt::format("{}, {}", kOptional, kRule)})
    CHECK(warnings_of(rules, catalog(1, with_norm)).size() == 1);
  CHECK(warnings_of(kRule, catalog(1, {everywhere("l.1.w", 1, {2}), everywhere("l.2.w", 1, {2}),
                                       everywhere("l.3.w", 1, {2})})) ==
        Lines{"W_COUNT: p.yaml:1: tensors[0]: tensor 'l.0.w': of 0 to 3, which `owner` counts on axis 'pp', no tensor "
              "has number 0: is the checkpoint whole, and the count that of the model?"});
  // Where several rules lack it the first one tells.
  const Lines of_two = warnings_of(fmt::format("{}, {{match: 'l.*.norm', owner: {{pp: $1/4}}}}", kRule),
                                   catalog(1, {everywhere("l.0.w", 1, {2}), everywhere("l.1.w", 1, {2}),
                                               everywhere("l.3.w", 1, {2}), everywhere("l.3.norm", 1, {2})}));
  REQUIRE(of_two.size() == 1);
  CHECK(of_two[0].find("tensor 'l.2.w': of 0 to 3, which `owner` counts on axis 'pp', no tensor has number 2: ") !=
        std::string::npos);
  // Another rule has a tensor of the layer.
  const auto other = catalog(1, {everywhere("l.0.w", 1, {2}), everywhere("l.1.w", 1, {2}),
                                 everywhere("l.2.norm", 1, {2}), everywhere("l.3.w", 1, {2})});
  CHECK(warnings_of(fmt::format("{}, {{match: 'l.*.norm', owner: {{pp: $1/4}}}}", kRule), other).empty());
}

TEST_CASE("where a source numbers locally, coordinates before others have all their numbers") {
  const auto layers = [](int of_each, std::string_view suffix = "w") {
    std::vector<SourceTensor> out;
    for (int layer = 0; layer < of_each; ++layer)
      out.push_back(everywhere(fmt::format("l.{}.{}", layer, suffix), 2, {2}));
    return out;
  };
  const auto plan = [](std::string_view numbers, std::string_view more = "") {
    return fmt::format(
        "{{reshard: 1, source: {{axes: [pp=2]}}, target: {{axes: []}}, tensors: [{{match: 'l.*.*', owner: "
        "{{pp: {{index: $1, {}, numbering: local}}}}{}}}]}}",
        numbers, more);
  };
  CHECK(codes(plan("count: 4"), catalog(2, layers(2))) == Lines{"accepted"});
  CHECK(
      refusal(plan("count: 6"), catalog(2, layers(2))) ==
      Lines{
          "E_MISSING: p.yaml:1: tensors[0]: tensor 'l.2.w': no rank stores it (in files of coordinate 0 on 'pp' it is "
          "number 2): of 0 to 5, which `owner` counts on axis 'pp', no tensor has number 2; numbers are local, so a "
          "count or `split` that is not the model's gives tensors wrong numbers: correct it, or say `optional: true` "
          "in the rules that count them where the checkpoint is meant to lack them"});
  CHECK(codes(plan("split: [3, 3]"), catalog(2, layers(2))) == Lines{"E_MISSING l.2.w"});
  // What the experts of a rule lack is told once.
  const Lines of_experts = refusal(
      "{reshard: 1, source: {axes: [ep=2]}, target: {axes: []}, tensors: [{match: 'e.*.w', owner: {ep: {index: $1, "
      "count: 4, numbering: local}}}]}",
      catalog(2, {everywhere("e.0.w", 2, {2})}));
  REQUIRE(of_experts.size() == 1);
  CHECK(of_experts[0].find("(and 1 more tensor of this rule)") != std::string::npos);
  CHECK(codes(plan("count: 6", ", optional: true"), catalog(2, layers(2))) == Lines{"accepted"});
  // Layers that another rule counts without local numbers do not stand in for them.
  std::vector<SourceTensor> both = layers(2);
  for (int layer = 0; layer < 6; ++layer) {
    const bool is_first_stage = layer < 3;
    both.push_back(by_rank(fmt::format("g.{}.w", layer), is_first_stage
                                                             ? std::vector<std::optional<Shape>>{Shape{2}, {}}
                                                             : std::vector<std::optional<Shape>>{{}, Shape{2}}));
  }
  CHECK(codes(plan("count: 6", "}, {match: 'g.*.*', owner: {pp: $1/6}"), catalog(2, both)) == Lines{"E_MISSING l.2.w"});
  // The first stage lacks its last layer, the second one has its first alone.
  CHECK(codes(plan("count: 6"), catalog(2, {everywhere("l.0.w", 2, {2}), by_rank("l.1.w", {Shape{2}, {}})})) ==
        Lines{"E_MISSING l.2.w"});
  // A layer before others of its stage may be of another kind.
  CHECK(codes(plan("count: 6"), catalog(2, {everywhere("l.0.w", 2, {2}), everywhere("l.2.w", 2, {2})})) ==
        Lines{"accepted"});
  // The first stage has three layers, the last one two: of six.
  std::vector<SourceTensor> uneven = layers(2);
  uneven.push_back(by_rank("l.2.w", {Shape{2}, {}}));
  CHECK(codes(plan("count: 6"), catalog(2, uneven)) == Lines{"accepted"});
  CHECK(codes(plan("split: [3, 2]"), catalog(2, uneven)) == Lines{"accepted"});
}
