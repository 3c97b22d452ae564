#include <doctest/doctest.h>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner::test;
using reshard::planner::BoundPlan;
using reshard::planner::SourceTensor;

namespace {

using Numbers = std::vector<layout::Index>;

std::string packed(std::string_view source, std::string_view target, std::string_view more = "") {
  return fmt::format(
      "{{reshard: 1, source: {{axes: [{}]}}, target: {{axes: [{}]}}, tensors: [{{match: h, shard: {{0: {{axes: cp, "
      "layout: "
      "zigzag, packed: {{cu_seqlens: cu}}{}}}}}}}, {{match: cu}}]}}",
      source, target, more);
}

planner::TensorNumbers numbers(Numbers values) {
  return [values](const SourceTensor& tensor) { return tensor.name == "cu" ? values : Numbers{}; };
}

}  // namespace

TEST_CASE("sequence boundaries are read from a tensor of the source") {
  const auto source = catalog(1, {everywhere("h", 1, {8}), everywhere("cu", 1, {3}, Dtype::kI32)});
  const BoundPlan plan = bound(packed("", "cp=2"), source, numbers({0, 4, 8}));
  CHECK(target_shards(plan, "h") == Shards{"[0-1 3-5 7-8]", "[1-3 5-7]"});
  CHECK(target_shards(plan, "cu") == Shards{"[0-3]", "[0-3]"});
  const auto& cut = plan.layouts[tensor(plan, "h").layout].target_placement.dims.at(0);
  REQUIRE(cut.levels.size() == 1);
  CHECK(cut.levels[0].packed->cu_seqlens == Numbers{0, 4, 8});
  CHECK(cut.levels[0].packed->cu_seqlens_tensor.empty());
}

TEST_CASE("temporary padding of packed sequences goes and comes with the layout") {
  // Sequences of 3 and 5, padded to 4 and 8 for cp=2.
  const auto source = catalog(2, {everywhere("h", 2, {6}), everywhere("cu", 2, {3}, Dtype::kI64)});
  const BoundPlan plan = bound(packed("cp=2", ""), source, numbers({0, 3, 8}));
  CHECK(source_shards(plan, "h") == Shards{"[0-1 +1 3-5 +2]", "[1-3 5-8 +1]"});
  CHECK(target_shards(plan, "h") == Shards{"[0-8]"});
}

TEST_CASE("boundaries that no tensor or no such tensor gives are refused") {
  const auto h = everywhere("h", 1, {8});
  CHECK(refusal(packed("", "cp=2"), catalog(1, {h, everywhere("cu.0", 1, {3}, Dtype::kI32)}), numbers({})) ==
        Lines{"E_MISSING: p.yaml:1: tensors[0]: tensor 'h': dim 0: cu_seqlens tensor 'cu' is not in the source",
              "E_RULE_UNUSED: p.yaml:1: tensors[1]: 'cu' matches none of the 2 tensors of the source; where that is "
              "fine say "
              "`optional: "
              "true`",
              "E_TENSOR_UNMATCHED: p.yaml: tensor 'cu.0': none of the 2 rules matches; add a rule, or say `unmatched: "
              "replicate` or `unmatched: drop`"});
  CHECK(refusal(packed("", "cp=2"), catalog(1, {h, everywhere("cu", 1, {3}, Dtype::kF32)}), numbers({0, 4, 8})) ==
        Lines{"E_SEQ_LAYOUT: p.yaml:1: tensors[0]: tensor 'h': dim 0: cu_seqlens tensor 'cu' is f32 with 1 dims, "
              "expected a vector "
              "of i32 "
              "or i64"});
  CHECK(codes(packed("", "cp=2"), catalog(1, {h, everywhere("cu", 1, {3}, Dtype::kI32)}), numbers({0, 5, 4})) ==
        Lines{"E_SEQ_LAYOUT h"});
}

TEST_CASE("packed sequences of another total than the stream are refused") {
  const auto source = [](layout::Index ranks, layout::Index stored) {
    return catalog(ranks, {everywhere("h", ranks, {stored}), everywhere("cu", ranks, {3}, Dtype::kI32)});
  };
  CHECK(refusal(packed("", "cp=2"), source(1, 10), numbers({0, 3, 8})) ==
        Lines{"E_SEQ_LAYOUT: p.yaml:1: tensors[0]: tensor 'h': source: dim 0: the end of 'packed' is 8, but the ranks "
              "store 10: it would be stored as 8 where 10 is found"});
  CHECK(codes(packed("cp=2", ""), source(2, 5), numbers({0, 3, 8})) == Lines{"E_SEQ_LAYOUT h"});
}

TEST_CASE("a source that cannot be read is no fault of the plan") {
  const auto source = catalog(1, {everywhere("h", 1, {8}), everywhere("cu", 1, {3}, Dtype::kI32)});
  const planner::TensorNumbers broken = [](const SourceTensor&) -> Numbers {
    throw Error(Exit::kIo, {Issue{ErrorCode::kIo, "rank-00000.h5", "cu", "short read"}});
  };
  try {
    bound(packed("", "cp=2"), source, broken);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.exit() == Exit::kIo);
    CHECK(error.issues() == std::vector<Issue>{{ErrorCode::kIo, "rank-00000.h5", "cu", "short read"}});
  }
}

TEST_CASE("a padding value must be one that the dtype has") {
  const auto with = [](Dtype dtype) {
    return catalog(1, {everywhere("h", 1, {8}, dtype), everywhere("cu", 1, {3}, Dtype::kI32)});
  };
  const std::string plan = packed("", "cp=2", ", pad_value: -100");
  CHECK(bound(plan, with(Dtype::kI64), numbers({0, 3, 8})).tensors.size() == 2);
  CHECK(refusal(plan, with(Dtype::kU8), numbers({0, 3, 8})) ==
        Lines{"E_DTYPE: p.yaml:1: tensors[0]: tensor 'h': `pad_value` -100 is no value of u8"});
}

TEST_CASE("zigzag with an inner cut becomes contiguous") {
  const BoundPlan plan = bound(
      "{reshard: 1, source: {axes: [cp=2, tp=2]}, target: {axes: [cp=4]}, tensors: [{match: h, shard: {0: {axes: [cp, "
      "tp], "
      "layout: zigzag}}, target: {shard: {0: {layout: contiguous}}}}]}",
      catalog(4, {everywhere("h", 4, {4})}));
  CHECK(source_shards(plan, "h") == Shards{"[0-4]", "[12-16]", "[4-8]", "[8-12]"});
  CHECK(target_shards(plan, "h") == Shards{"[0-4]", "[4-8]", "[8-12]", "[12-16]"});
}
