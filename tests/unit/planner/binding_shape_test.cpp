#include <doctest/doctest.h>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner::test;
using reshard::planner::BoundPlan;
using reshard::planner::SourceTensor;

namespace {

SourceTensor recorded(SourceTensor tensor, const Shape& global) {
  for (planner::StoredRun& run : tensor.stored) run.global_shape = global;
  return tensor;
}

/// A plan of one rule for tensor `w`.
std::string one_rule(std::string_view source, std::string_view target, std::string_view rule) {
  return fmt::format("{{reshard: 1, source: {{axes: [{}]}}, target: {{axes: [{}]}}, tensors: [{{match: w, {}}}]}}",
                     source, target, rule);
}

Shape shape_of(const BoundPlan& plan) {
  return plan.layouts.at(0).source.shape;
}

}  // namespace

TEST_CASE("gate and up halves are cut each on its own") {
  const std::string plan = one_rule("tp=2", "tp=3", "shard: {0: {axes: tp, segments: [6, 6]}}");
  const BoundPlan bound_plan = bound(plan, catalog(2, {everywhere("w", 2, {6, 2})}));
  CHECK(shape_of(bound_plan) == Shape{12, 2});
  CHECK(source_shards(bound_plan, "w") == Shards{"[0-3 6-9, 0-2]", "[3-6 9-12, 0-2]"});
  CHECK(target_shards(bound_plan, "w") == Shards{"[0-2 6-8, 0-2]", "[2-4 8-10, 0-2]", "[4-6 10-12, 0-2]"});
}

TEST_CASE("KV heads are repeated over more ranks than heads, and collapse on the way back") {
  constexpr std::string_view kRule = "shard: {0: {axes: tp, unit: 2, fallback: repeat, size: 4}}";
  const BoundPlan wide = bound(one_rule("tp=1", "tp=4", kRule), catalog(1, {everywhere("w", 1, {4, 4})}));
  CHECK(target_shards(wide, "w") == Shards{"[0-2, 0-4]", "[0-2, 0-4]", "[2-4, 0-4]", "[2-4, 0-4]"});
  CHECK(lines(wide.warnings) ==
        Lines{"W_FALLBACK: p.yaml:1: tensors[0]: tensor 'w': target: dim 0 has fewer units than the 4 "
              "coordinates of 'tp'; each unit is "
              "stored on several (`fallback: repeat`)"});
  const auto stored = catalog(4, {everywhere("w", 4, {2, 4})});
  CHECK(shape_of(bound(one_rule("tp=4", "tp=1", kRule), stored)) == Shape{4, 4});
  CHECK(target_shards(bound(one_rule("tp=4", "tp=2", kRule), stored), "w") == Shards{"[0-2, 0-4]", "[2-4, 0-4]"});
  CHECK(codes(one_rule("tp=4", "tp=1", "shard: {0: {axes: tp, unit: 2, fallback: repeat}}"), stored) ==
        Lines{"E_PAD w"});
  CHECK(shape_of(bound(one_rule("tp=4", "tp=1", "shard: {0: {axes: tp, unit: 2, fallback: repeat}}"),
                       catalog(4, {recorded(everywhere("w", 4, {2, 4}), {4, 4})}))) == Shape{4, 4});
  CHECK(codes(one_rule("tp=1", "tp=4", "shard: {0: {axes: tp, unit: 2}}"), catalog(1, {everywhere("w", 1, {4, 4})})) ==
        Lines{"E_INDIVISIBLE w"});
}

TEST_CASE("the padded vocabulary follows the axis, the true one does not") {
  constexpr std::string_view kRule = "shard: {0: {axes: tp, size: 10, pad_total: 4}}";
  const auto two = catalog(2, {everywhere("w", 2, {8, 2})});
  const BoundPlan one = bound(one_rule("tp=2", "tp=1", kRule), two);
  CHECK(shape_of(one) == Shape{10, 2});
  CHECK(source_shards(one, "w") == Shards{"[0-8, 0-2]", "[8-10 +6, 0-2]"});
  CHECK(target_shards(one, "w") == Shards{"[0-10 +2, 0-2]"});
  CHECK(target_shards(bound(one_rule("tp=2", "tp=4", kRule), two), "w") ==
        Shards{"[0-4, 0-2]", "[4-8, 0-2]", "[8-10 +2, 0-2]", "[+4, 0-2]"});
  CHECK(target_shards(bound(one_rule("tp=1", "tp=2", kRule), catalog(1, {everywhere("w", 1, {12, 2})})), "w") ==
        Shards{"[0-8, 0-2]", "[8-10 +6, 0-2]"});
  const BoundPlan plain = bound(one_rule("tp=2", "tp=1", "shard: {0: {axes: tp, size: 7, pad_total: 1}}"),
                                catalog(2, {everywhere("w", 2, {4, 2})}));
  CHECK(target_shards(plain, "w") == Shards{"[0-7, 0-2]"});
}

TEST_CASE("the size that only the target's padding names is the tensor's") {
  const BoundPlan plan =
      bound(one_rule("tp=1", "tp=2", "shard: {0: tp}, target: {shard: {0: {pad_total: 8, size: 101}}}"),
            catalog(1, {everywhere("w", 1, {101, 2})}));
  CHECK(target_shards(plan, "w") == Shards{"[0-56, 0-2]", "[56-101 +11, 0-2]"});
  CHECK(codes(one_rule("tp=1", "tp=2", "shard: {0: tp}, target: {shard: {0: {pad_total: 8, size: 100}}}"),
              catalog(1, {everywhere("w", 1, {101, 2})})) == Lines{"E_SHAPE w"});
  CHECK(refusal(one_rule("tp=1", "tp=2",
                         "shard: {0: {axes: tp, size: 8}}, target: {shard: {0: null, -2: {axes: tp, size: 10}}}"),
                catalog(1, {everywhere("w", 1, {8, 2})})) ==
        Lines{"E_SHAPE: p.yaml:1: tensors[0]: tensor 'w': dim 0: `size` is 8 on the source and 10 on the target"});
}

TEST_CASE("alignment padding is stored, never counted") {
  // Source rank = gtp * 2 + tp, of [gtp=2, tp=2]: TP-local 5 rows, padded to 8, 4 per shard.
  const BoundPlan plan = bound(one_rule("gtp=2, tp=2", "", "shard: {0: {axes: [tp, gtp], pad_to: 4, size: 10}}"),
                               catalog(4, {everywhere("w", 4, {4, 2})}));
  CHECK(source_shards(plan, "w") == Shards{"[0-4, 0-2]", "[5-9, 0-2]", "[4-5 +3, 0-2]", "[9-10 +3, 0-2]"});
  CHECK(target_shards(plan, "w") == Shards{"[0-10, 0-2]"});
  CHECK(codes(one_rule("gtp=2, tp=2", "", "shard: {0: {axes: [tp, gtp], pad_to: 4}}"),
              catalog(4, {everywhere("w", 4, {4, 2})})) == Lines{"E_PAD w"});
}

TEST_CASE("perpendicular cuts of a row-parallel weight") {
  const BoundPlan plan =
      bound(one_rule("gtp=2, tp=2", "gtp=4", "shard: {1: tp, 0: gtp}"), catalog(4, {everywhere("w", 4, {4, 4})}));
  CHECK(source_shards(plan, "w") == Shards{"[0-4, 0-4]", "[0-4, 4-8]", "[4-8, 0-4]", "[4-8, 4-8]"});
  CHECK(target_shards(plan, "w") == Shards{"[0-2, 0-8]", "[2-4, 0-8]", "[4-6, 0-8]", "[6-8, 0-8]"});
}

TEST_CASE("a convention of uneven shards that the source does not have is refused") {
  const SourceTensor chunks = by_rank("w", {Shape{3}, Shape{3}, Shape{3}, Shape{1}});
  const BoundPlan plan =
      bound(one_rule("tp=4", "tp=4", "shard: {0: {axes: tp, split: chunk}}, target: {shard: {0: {split: balanced}}}"),
            catalog(4, {chunks}));
  CHECK(source_shards(plan, "w") == Shards{"[0-3]", "[3-6]", "[6-9]", "[9-10]"});
  CHECK(target_shards(plan, "w") == Shards{"[0-3]", "[3-6]", "[6-8]", "[8-10]"});
  CHECK(codes(one_rule("tp=4", "tp=4", "shard: {0: {axes: tp, split: balanced}}"), catalog(4, {chunks})) ==
        Lines{"E_SHAPE w"});
}

TEST_CASE("what the checkpoint records must agree with the plan") {
  CHECK(codes(one_rule("tp=2", "", "shard: {1: tp}"),
              catalog(2, {recorded(everywhere("w", 2, {64, 64}), {64, 100})})) == Lines{"E_SHAPE w"});
  SourceTensor torn = recorded(by_rank("w", {Shape{2}, Shape{2, 1}}), {4});
  CHECK(refusal(one_rule("tp=2", "", "shard: {0: tp}"), catalog(2, {torn})) ==
        Lines{"E_SHAPE: p.yaml:1: tensors[0]: tensor 'w': [2] on rank 0, [2, 1] on rank 1; all ranks must store the "
              "same number of "
              "dims"});
}

TEST_CASE("a replicated tensor must be the same size on every rank") {
  CHECK(codes(one_rule("tp=2", "", "optional: false"), catalog(2, {by_rank("w", {Shape{4}, Shape{2}})})) ==
        Lines{"E_SHAPE w"});
}

TEST_CASE("dims are counted from either end, once each") {
  const auto source = catalog(1, {everywhere("w", 1, {8, 4})});
  CHECK(target_shards(bound(one_rule("", "tp=2", "shard: {-1: tp}"), source), "w") ==
        Shards{"[0-8, 0-2]", "[0-8, 2-4]"});
  CHECK(refusal(one_rule("", "tp=2", "shard: {2: tp}"), source) ==
        Lines{"E_DIM_RANGE: p.yaml:1: tensors[0]: tensor 'w': dim 2 of a tensor with 2 dims, expected -2 to 1"});
  CHECK(refusal(one_rule("", "tp=2, gtp=2", "shard: {0: tp, -2: gtp}"), source) ==
        Lines{"E_DIM_DUP: p.yaml:1: tensors[0]: tensor 'w': keys 0 and -2 are the same dim of a tensor with 2 dims"});
  CHECK(codes(one_rule("", "tp=2", "shard: {0: tp}"), catalog(1, {everywhere("w", 1, {})})) == Lines{"E_DIM_RANGE w"});
}

TEST_CASE("axis first, keys of either sign for one dim are its levels in mesh order") {
  const auto source = catalog(1, {everywhere("w", 1, {8, 4})});
  const auto placed = [&](const char* mesh, const char* place) {
    return target_shards(bound(one_rule("", mesh, std::string("place: ") + place), source), "w");
  };
  CHECK(placed("tp=2, dp=2", "{dp: shard(-2), tp: shard(0)}") ==
        Shards{"[0-2, 0-4]", "[2-4, 0-4]", "[4-6, 0-4]", "[6-8, 0-4]"});
  CHECK(placed("dp=2, tp=2", "{dp: shard(-2), tp: shard(0)}") ==
        Shards{"[0-2, 0-4]", "[2-4, 0-4]", "[4-6, 0-4]", "[6-8, 0-4]"});
  // With a and c before b rank 1 would hold the rows 2-3.
  CHECK(placed("a=2, b=2, c=2", "{a: shard(0), b: shard(-2), c: shard(0)}") ==
        Shards{"[0-1, 0-4]", "[1-2, 0-4]", "[2-3, 0-4]", "[3-4, 0-4]", "[4-5, 0-4]", "[5-6, 0-4]", "[6-7, 0-4]",
               "[7-8, 0-4]"});
  CHECK(placed("tp=2, dp=2", "{dp: shard(-1), tp: shard(1)}") ==
        Shards{"[0-8, 0-1]", "[0-8, 1-2]", "[0-8, 2-3]", "[0-8, 3-4]"});
}

TEST_CASE("one cause for many tensors is one line") {
  std::vector<SourceTensor> tensors;
  for (int i = 0; i < 40; ++i) tensors.push_back(everywhere(fmt::format("layers.{}.w", i), 1, {10}));
  const Lines found =
      refusal("{reshard: 1, source: {}, target: {axes: [tp=3]}, tensors: [{match: 'layers.*.w', shard: {0: tp}}]}",
              catalog(1, tensors));
  REQUIRE(found.size() == 1);
  CHECK(found[0].starts_with("E_INDIVISIBLE: p.yaml:1: tensors[0]: tensor 'layers.0.w': target: dim 0: "));
  CHECK(found[0].ends_with(" (and 39 more tensors of this rule)"));
}

TEST_CASE("faults come by rule, then by tensor") {
  CHECK(codes(R"(
reshard: 1
source: {}
target: {axes: [tp=3]}
tensors:
  - {match: "z.*", shard: {0: tp}}
  - {match: "gone"}
  - {match: "a.*", shard: {0: tp}}
)",
              catalog(1, {everywhere("a.1", 1, {5}), everywhere("a.0", 1, {4}), everywhere("z.0", 1, {4}),
                          everywhere("m", 1, {4})})) ==
        Lines{"E_INDIVISIBLE z.0", "E_RULE_UNUSED ", "E_INDIVISIBLE a.0", "E_INDIVISIBLE a.1", "E_TENSOR_UNMATCHED m"});
}

TEST_CASE("a source of another number of ranks is refused at once") {
  CHECK(refusal(one_rule("dp=2, tp=2", "", "shard: {0: tp}"), catalog(2, {everywhere("w", 2, {4})})) ==
        Lines{"E_MESH_WORLD: p.yaml: the source has 2 ranks, the plan's source axes [dp=2, tp=2] make 4"});
}

TEST_CASE("placements of the target are final: no size, no idle axis, no open fallback") {
  const auto placement = [](const BoundPlan& plan) { return plan.layouts.at(0).target_placement; };
  layout::Level tp;
  tp.axis = "tp";
  tp.axis_size = 2;
  layout::DimCut cut;
  cut.levels = {tp};
  CHECK(placement(bound(one_rule("ep=2", "tp=2", "shard: {0: {axes: [ep, tp], size: 8, fallback: replicate}}"),
                        catalog(2, {everywhere("w", 2, {4})})))
            .dims == std::vector<layout::DimCut>{cut});
  CHECK(placement(bound(one_rule("", "tp=3", "shard: {0: {axes: tp, fallback: replicate}}"),
                        catalog(1, {everywhere("w", 1, {4})})))
            .dims == std::vector<layout::DimCut>{{}});
  // Where nothing is padded, there is nothing to fill.
  CHECK(placement(bound(one_rule("gtp=2", "", "shard: {0: {axes: gtp, size: 8, pad_to: 4, fill: last}}"),
                        catalog(2, {everywhere("w", 2, {4})})))
            .dims == std::vector<layout::DimCut>{{}});
  // 12 rows, a multiple of 4 x ep = 4 x 1: with ep left out, the same 12 rows are a multiple of 6 x tp.
  cut.pad_total = 6;
  CHECK(placement(bound(one_rule("ep=3", "tp=2", "shard: {0: {axes: [ep, tp], size: 12, pad_total: 4}}"),
                        catalog(3, {everywhere("w", 3, {4})})))
            .dims == std::vector<layout::DimCut>{cut});
}

TEST_CASE("scalars and tensors of no elements are bound like others") {
  const BoundPlan plan = bound(
      "{reshard: 1, source: {axes: [tp=2]}, target: {axes: [tp=4]}, tensors: [{match: s}, {match: e, shard: {0: tp}}]}",
      catalog(2, {everywhere("s", 2, {}), everywhere("e", 2, {0, 4})}));
  CHECK(target_shards(plan, "s") == Shards{"[]", "[]", "[]", "[]"});
  CHECK(plan.layouts[tensor(plan, "e").layout].target.shape == Shape{0, 4});
}
