// Sources with a manifest: rules that leave the source's cut to it, and rules that repeat or contradict it.

#include "reshard/planner/binding_owners.hpp"
#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner;
using namespace reshard::planner::test;

namespace {

/// `rows` of a tensor cut by tp=2 on dim 0; and two tensors of stages that number from 0.
SourceCatalog recorded() {
  const layout::Mesh mesh({{"pp", 2}, {"tp", 2}});
  layout::DimCut rows;
  rows.levels.resize(1);
  rows.levels[0].axis = "tp";
  rows.levels[0].axis_size = 2;
  SourceTensor w = everywhere("w", 4, {3, 2});
  w.stored[0].global_shape = Shape{6, 2};
  w.recorded = {{"w", 0}};
  SourceTensor l = everywhere("l.0.w", 4, {3});
  l.stored[0].global_shape = Shape{3};
  l.recorded = {{"l.0.w", 1}, {"l.1.w", 2}};
  SourceCatalog out = catalog(4, {w, l});
  out.recorded_layouts = {{layout::lay_out({6, 2}, {{rows, {}}, {}}, mesh), "ROWS", {"tp"}},
                          {layout::lay_out({3}, {{{}}, {true, true, false, false}}, mesh), "FIRST", {"pp"}},
                          {layout::lay_out({3}, {{{}}, {false, false, true, true}}, mesh), "SECOND", {"pp"}}};
  return out;
}

std::string plan_with(const std::string& rules) {
  return "{reshard: 1, source: {axes: [pp=2, tp=2]}, target: {axes: [tp=2]}, tensors: [" + rules + "]}";
}

const std::string kStages =
    "{match: 'l.*.w', owner: {pp: {index: $1, count: 2, numbering: local}}, target: {owner: null}}";

}  // namespace

TEST_CASE("a rule that says nothing of the source takes the manifest's placements and numbers") {
  const BoundPlan plan =
      bound(plan_with("{match: w, target: {shard: {1: tp}}}, {match: 'l.*.w', rename: 'm.$1'}"), recorded());
  CHECK(source_shards(plan, "w") == Shards{"[0-3, 0-2]", "[3-6, 0-2]", "[0-3, 0-2]", "[3-6, 0-2]"});
  CHECK(target_shards(plan, "w") == Shards{"[0-6, 0-1]", "[0-6, 1-2]"});
  CHECK(source_shards(plan, "m.0") == Shards{"[0-3]", "[0-3]", "-", "-"});
  CHECK(source_shards(plan, "m.1") == Shards{"-", "-", "[0-3]", "[0-3]"});
  CHECK(tensor(plan, "m.1").source_name == "l.1.w");
  CHECK(tensor(plan, "m.1").source_stored_name() == "l.0.w");
  CHECK(lines(plan.warnings).empty());
}

TEST_CASE("tensors without a rule take the manifest's placements too") {
  const BoundPlan plan =
      bound("{reshard: 1, source: {axes: [pp=2, tp=2]}, target: {}, unmatched: replicate, tensors: []}", recorded());
  CHECK(target_shards(plan, "w") == Shards{"[0-6, 0-2]"});
  CHECK(target_shards(plan, "l.1.w") == Shards{"[0-3]"});
}

TEST_CASE("a rule that says what the manifest says is the same plan") {
  const BoundPlan plan = bound(plan_with("{match: w, shard: {0: {axes: tp, unit: 3}}}, " + kStages), recorded());
  CHECK(source_shards(plan, "w") == Shards{"[0-3, 0-2]", "[3-6, 0-2]", "[0-3, 0-2]", "[3-6, 0-2]"});
  CHECK(source_shards(plan, "l.1.w") == Shards{"-", "-", "[0-3]", "[0-3]"});
}

TEST_CASE("a rule that cuts otherwise is refused with both placements") {
  CHECK(refusal(plan_with("{match: w, shard: {1: tp}}, {match: 'l.*.w'}"), recorded()) ==
        Lines{"E_SHAPE: p.yaml:1: tensors[0]: tensor 'w': the source's manifest places it as ROWS, the rule as "
              "{\"shard\":{\"1\":{\"axes\":[\"tp\"]}}}; "
              "a rule that says nothing of the source takes the manifest's"});
  CHECK(refusal(plan_with("{match: w, shard: {0: {axes: tp, unit: 4}}}, {match: 'l.*.w'}"), recorded()) ==
        Lines{"E_SHAPE: p.yaml:1: tensors[0]: tensor 'w': the source's manifest places it as ROWS, the rule as "
              "{\"shard\":{\"0\":{\"axes\":[\"tp\"],\"unit\":4}}}, which cannot cut it: dim 0: the 6 elements that "
              "axis 'tp' cuts are no whole number of units of 4 (1 x 4 + 2); legal lengths are multiples of 4"});
  CHECK(codes(plan_with("{match: w, target: {shard: {0: {axes: tp, size: 8}}}}, {match: 'l.*.w'}"), recorded()) ==
        Lines{"E_SHAPE w"});
  CHECK(codes(plan_with("{match: w}, {match: 'l.*.w', owner: {pp: $1/2}}"), recorded()) == Lines{"E_SHAPE l.0.w"});
  CHECK(codes(plan_with("{match: w}, {match: 'l.*.w', owner: {pp: {index: $1, split: [2, 1], numbering: local}}}"),
              recorded()) == Lines{"E_SHAPE l.2.w"});
}
