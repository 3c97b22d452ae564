#include "reshard/planner/binding_dtype.hpp"

#include <doctest/doctest.h>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner::test;
using reshard::planner::BoundPlan;
using reshard::planner::holds_exactly;
using reshard::planner::narrows;

TEST_CASE("tensors keep their dtype unless their rule names another") {
  const auto source = catalog(1, {everywhere("a", 1, {4}, Dtype::kBf16), everywhere("b", 1, {4}, Dtype::kF32),
                                  everywhere("m", 1, {4}, Dtype::kBool), everywhere("n", 1, {4}, Dtype::kI64)});
  const auto yaml = [](std::string_view ab) {
    return fmt::format(
        "{{reshard: 1, source: {{}}, target: {{axes: []}}, tensors: [{{match: '{{a,b}}'{}}}, {{match: '*'}}]}}", ab);
  };
  const auto dtypes = [](const BoundPlan& plan) {
    std::string out;
    for (const auto& bound_tensor : plan.tensors) out += fmt::format("{} ", name(bound_tensor.target_dtype));
    return out;
  };
  CHECK(dtypes(bound(yaml(""), source)) == "bf16 f32 bool i64 ");
  const BoundPlan wide = bound(yaml(", dtype: f32"), source);
  CHECK(dtypes(wide) == "f32 f32 bool i64 ");
  CHECK(wide.warnings.empty());
  const BoundPlan narrow = bound(yaml(", dtype: bf16"), source);
  CHECK(dtypes(narrow) == "bf16 bf16 bool i64 ");
  CHECK(lines(narrow.warnings) == Lines{"W_NARROWING: p.yaml:1: tensors[0]: tensor 'b': f32 to bf16 is rounded"});
}

TEST_CASE("integers are not converted, and ranks must store one dtype") {
  CHECK(refusal("{reshard: 1, source: {}, target: {}, tensors: [{match: n, dtype: f32}]}",
                catalog(1, {everywhere("n", 1, {4}, Dtype::kI64)})) ==
        Lines{"E_DTYPE: p.yaml:1: tensors[0]: tensor 'n': stored as i64: `dtype: f32` converts between f64, f32, f16 "
              "and bf16 "
              "only; give "
              "it a rule without `dtype`"});
  planner::SourceTensor mixed = everywhere("n", 2, {4});
  mixed.stored = {{0, 0, {4}, Dtype::kF32, std::nullopt}, {1, 1, {4}, Dtype::kBf16, std::nullopt}};
  CHECK(
      refusal("{reshard: 1, source: {axes: [dp=2]}, target: {}, tensors: [{match: n}]}", catalog(2, {mixed})) ==
      Lines{
          "E_DTYPE: p.yaml:1: tensors[0]: tensor 'n': f32 on rank 0, bf16 on rank 1; all ranks must store one dtype"});
}

TEST_CASE("a conversion narrows where range or precision shrinks") {
  CHECK(narrows(Dtype::kF64, Dtype::kF32));
  CHECK(narrows(Dtype::kF32, Dtype::kF16));
  CHECK(narrows(Dtype::kF16, Dtype::kBf16));
  CHECK(narrows(Dtype::kBf16, Dtype::kF16));
  CHECK_FALSE(narrows(Dtype::kF16, Dtype::kF32));
  CHECK_FALSE(narrows(Dtype::kBf16, Dtype::kF32));
  CHECK_FALSE(narrows(Dtype::kF32, Dtype::kF64));
}

TEST_CASE("a dtype holds the numbers it has, and no others") {
  CHECK(holds_exactly(Dtype::kF64, 0.1));
  CHECK_FALSE(holds_exactly(Dtype::kF32, 0.1));
  CHECK(holds_exactly(Dtype::kF32, -0.75));
  CHECK(holds_exactly(Dtype::kF16, 65504));
  CHECK_FALSE(holds_exactly(Dtype::kF16, 65505));
  CHECK(holds_exactly(Dtype::kF16, 0x1p-24));
  CHECK_FALSE(holds_exactly(Dtype::kF16, 0x1p-25));
  CHECK(holds_exactly(Dtype::kBf16, 256));
  CHECK_FALSE(holds_exactly(Dtype::kBf16, 257));
  CHECK(holds_exactly(Dtype::kF8E4M3, 448));
  CHECK_FALSE(holds_exactly(Dtype::kF8E4M3, 480));
  CHECK_FALSE(holds_exactly(Dtype::kF8E8M0, 0));
  CHECK(holds_exactly(Dtype::kF8E8M0, 0.25));
  CHECK(holds_exactly(Dtype::kI8, -128));
  CHECK_FALSE(holds_exactly(Dtype::kI8, 128));
  CHECK_FALSE(holds_exactly(Dtype::kU8, -1));
  CHECK(holds_exactly(Dtype::kU8, 255));
  CHECK_FALSE(holds_exactly(Dtype::kI64, 0.5));
  CHECK_FALSE(holds_exactly(Dtype::kI64, 0x1p63));
  CHECK(holds_exactly(Dtype::kBool, 1));
  CHECK_FALSE(holds_exactly(Dtype::kBool, 2));
}
