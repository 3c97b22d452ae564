#include <doctest/doctest.h>

#include "reshard/planner/binding_near.hpp"
#include "reshard/planner/binding_text.hpp"
#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner::test;
using reshard::planner::BoundPlan;

TEST_CASE("renamed tensors come in the order of their new names") {
  const BoundPlan plan = bound(R"(
reshard: 1
source: {}
target: {axes: []}
tensors:
  - {match: "model.layers.*.mlp.{up,down}.weight", rename: "blk.$1.$2"}
  - {match: "a"}
  - {match: "z", rename: "$x.0"}
)",
                               catalog(1, {everywhere("model.layers.3.mlp.up.weight", 1, {2}),
                                           everywhere("model.layers.10.mlp.down.weight", 1, {2}),
                                           everywhere("a", 1, {2}), everywhere("z", 1, {2})}));
  Lines names;
  for (const auto& bound_tensor : plan.tensors)
    names.push_back(bound_tensor.source_name + " > " + bound_tensor.target_name);
  CHECK(names == Lines{"z > $x.0", "a > a", "model.layers.10.mlp.down.weight > blk.10.down",
                       "model.layers.3.mlp.up.weight > blk.3.up"});
}

TEST_CASE("two tensors that get one name are both told") {
  CHECK(refusal(R"(
reshard: 1
source: {}
target: {axes: []}
tensors:
  - {match: "a.*", rename: "x"}
  - {match: "x"}
)",
                catalog(1, {everywhere("a.0", 1, {2}), everywhere("x", 1, {2})})) ==
        Lines{"E_RENAME_COLLISION: p.yaml:7: tensors[1]: tensor 'x': becomes 'x' in the target, and so does 'a.0' "
              "(p.yaml:6: "
              "tensors[0])"});
}

TEST_CASE("names that differ may still collide in a file that numbers locally") {
  const std::string plan = R"(
reshard: 1
source: {}
target: {axes: [ep=2]}
tensors:
  - {match: "e.*", owner: {ep: {index: $1, count: 4}}, target: {owner: {ep: {index: $1, count: 4, numbering: local}}}}
  - {match: "shared", rename: "e.$0"}
)";
  const auto renamed = [&](std::string_view name) {
    std::string text = plan;
    text.replace(text.find("e.$0"), 4, name);
    return text;
  };
  const auto source = catalog(1, {everywhere("e.0", 1, {2}), everywhere("e.1", 1, {2}), everywhere("e.2", 1, {2}),
                                  everywhere("e.3", 1, {2}), everywhere("shared", 1, {2})});
  // Global experts 2 and 3 are stored as e.0 and e.1 on ep 1: no collision among them, nor with another name.
  CHECK(bound(renamed("e.9"), source).tensors.size() == 5);
  CHECK(codes(renamed("e.1"), source) == Lines{"E_RENAME_COLLISION shared"});
  // Here the rule for e.* takes numbers 2 and 3 only, and e.0 stands on every rank.
  CHECK(refusal(R"(
reshard: 1
source: {}
target: {axes: [ep=2]}
tensors:
  - {match: "shared", rename: "e.0"}
  - {match: "e.{2,3}", owner: {ep: {index: $1, count: 4}}, target: {owner: {ep: {index: $1, count: 4, numbering: local}}}}
)",
                catalog(1, {everywhere("e.2", 1, {2}), everywhere("e.3", 1, {2}), everywhere("shared", 1, {2})})) ==
        Lines{"E_RENAME_COLLISION: p.yaml:6: tensors[0]: tensor 'shared': is stored as 'e.0' in the target, and so is "
              "'e.2' on the "
              "same "
              "rank (p.yaml:7: tensors[1])"});
}

TEST_CASE("of several that share a stored name the one on the same rank is told, each name for itself") {
  // Stored as e.0 on stage 0, e.0 on stage 1; number 10 of 20 is the first of stage 1.
  CHECK(refusal(R"(
reshard: 1
source: {}
target: {axes: [pp=2]}
tensors:
  - {match: "e.*", target: {owner: {pp: {index: $1, count: 4, numbering: local}}}}
  - {match: "g.*", rename: "e.$1", target: {owner: {pp: {index: $1, count: 20, numbering: local}}}}
)",
                catalog(1, {everywhere("e.0", 1, {2}), everywhere("e.1", 1, {2}), everywhere("e.2", 1, {2}),
                            everywhere("e.3", 1, {2}), everywhere("g.10", 1, {2}), everywhere("g.11", 1, {2})})) ==
        Lines{"E_RENAME_COLLISION: p.yaml:7: tensors[1]: tensor 'g.10': is stored as 'e.0' in the target, and so is "
              "'e.2' on the same rank (p.yaml:6: tensors[0])",
              "E_RENAME_COLLISION: p.yaml:7: tensors[1]: tensor 'g.11': is stored as 'e.1' in the target, and so is "
              "'e.3' on the same rank (p.yaml:6: tensors[0])"});
}

TEST_CASE("stored names may be alike on ranks that differ in the rule's view") {
  const BoundPlan plan = bound(R"(
reshard: 1
source: {}
target: {axes: [tp=4], views: {expert: [ep=2, etp=2]}}
tensors:
  - {match: "e.*", view: expert, target: {owner: {ep: {index: $1, count: 4, numbering: local}}}}
)",
                               catalog(1, {everywhere("e.0", 1, {2}), everywhere("e.1", 1, {2}),
                                           everywhere("e.2", 1, {2}), everywhere("e.3", 1, {2})}));
  CHECK(tensor(plan, "e.3").target_stored_name() == "e.1");
  CHECK(target_shards(plan, "e.3") == Shards{"-", "-", "[0-2]", "[0-2]"});
}

TEST_CASE("every number that the target counts for itself is its own, as wide as it was") {
  const BoundPlan plan = bound(R"(
reshard: 1
source: {}
target: {axes: [pp=2, ep=2]}
tensors:
  - match: "l.*.e.*.w"
    target: {owner: {pp: {index: $1, count: 4, numbering: local}, ep: {index: $2, count: 4, numbering: local}}}
)",
                               catalog(1, {everywhere("l.03.e.0.w", 1, {2}), everywhere("l.03.e.1.w", 1, {2}),
                                           everywhere("l.03.e.2.w", 1, {2}), everywhere("l.03.e.3.w", 1, {2})}));
  CHECK(tensor(plan, "l.03.e.1.w").target_stored_name() == "l.01.e.1.w");
  CHECK(tensor(plan, "l.03.e.2.w").target_stored_name() == "l.01.e.0.w");
}

TEST_CASE("a renamed tensor asks nothing of its pattern for the target's own numbers") {
  const BoundPlan plan = bound(R"(
reshard: 1
source: {}
target: {axes: [pp=2]}
tensors:
  - {match: 're:l\.([23])\.w2', rename: "blk.$1", target: {owner: {pp: {index: $1, count: 4, numbering: local}}}}
)",
                               catalog(1, {everywhere("l.2.w2", 1, {2}), everywhere("l.3.w2", 1, {2})}));
  CHECK(tensor(plan, "blk.2").target_stored_name() == "blk.0");
  CHECK(tensor(plan, "blk.3").target_stored_name() == "blk.1");
}

TEST_CASE("the target's own numbering stands in the renamed stored name") {
  const BoundPlan plan =
      bound(R"(
reshard: 1
source: {}
target: {axes: [pp=2]}
tensors:
  - {match: "model.layers.*.w", rename: "blk.$1", target: {owner: {pp: {index: $1, count: 4, numbering: local}}}}
)",
            catalog(1, {everywhere("model.layers.1.w", 1, {2}), everywhere("model.layers.3.w", 1, {2})}));
  CHECK(tensor(plan, "blk.1").target_stored_name() == "blk.1");
  CHECK(tensor(plan, "blk.3").target_stored_name() == "blk.1");
  CHECK(tensor(plan, "blk.3").source_name == "model.layers.3.w");
}

TEST_CASE("numbers are listed by runs, names by form") {
  CHECK(planner::rank_list(std::vector<layout::Index>{3}) == "rank 3");
  CHECK(planner::rank_list(std::vector<layout::Index>{0, 1, 2, 5, 7, 8}) == "ranks 0 to 2, 5, 7 to 8");
  CHECK(planner::name_list(Lines{"l.0.w", "embed", "l.1.w", "l.12.w"}) == "'l.*.w' (3 tensors), 'embed'");
}

TEST_CASE("names near a pattern are found through its wildcards and braces") {
  const Lines names = {"model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight", "lm_head.weight"};
  CHECK(planner::nearest_names("**.q_projj.weight", names) ==
        Lines{"model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight"});
  CHECK(planner::nearest_names("model.layer.*.mlp.{gate,up}_proj.weight", names) ==
        Lines{"model.layers.0.mlp.up_proj.weight", "model.layers.0.self_attn.q_proj.weight"});
  CHECK(planner::nearest_names("decoder.final_layernorm.bias", names).empty());
  CHECK(planner::nearest_names("re:lm_head.weigh", names).empty());
}

TEST_CASE(
    "the pattern near a name is one that matches nothing else, letters that changed places and a star too few "
    "forgiven") {
  const Lines patterns = {"**.q_proj.weight", "**.{k,v}_proj.wieght", "*.o_proj.weight"};
  const std::vector<bool> used = {true, false, false};
  CHECK(planner::nearest_pattern("model.layers.0.self_attn.k_proj.weight", patterns, used) == 1);
  CHECK(planner::nearest_pattern("model.layers.0.self_attn.o_proj.weight", patterns, used) == 2);
  CHECK(planner::nearest_pattern("model.layers.0.self_attn.qq_proj.weight", patterns, used) == 0);
  CHECK(planner::nearest_pattern("something.else", patterns, used) == std::nullopt);
}
