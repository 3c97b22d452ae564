#include "reshard/plan/canonical.hpp"

#include <doctest/doctest.h>

#include <string>

#include "reshard/base/json.hpp"
#include "unit/plan/plan_texts.hpp"
#include "unit/plan/support.hpp"

using namespace reshard;
using namespace reshard::plan;
using namespace reshard::test;

namespace {

std::string canonical(std::string_view text, Notation notation = Notation::kYaml, const PlanOptions& options = {}) {
  return canonical_json(read_plan(text, notation, "p", options).canonical);
}

}  // namespace

TEST_CASE("a plan and its JSON form are one plan") {
  for (const PlanText& plan : kPlanTexts) {
    CAPTURE(plan.name);
    const std::string json = canonical_json(read_document(plan.text, Notation::kYaml, "p"));
    CHECK(canonical(plan.text) == canonical(json, Notation::kJson));
    CHECK(canonical(plan.text) == canonical(json, Notation::kYaml));
  }
}

TEST_CASE("the canonical form has defaults resolved, variables replaced and no paths") {
  const std::string text =
      "reshard: 1\n"
      "vars: {n: 2}\n"
      "source: {axes: [\"tp=${n}\"], path: here}\n"
      "target: {axes: [dp=2, tp=2], ranks: [1, 0, 3, 2], views: {e: [ep=4]}, files: \"r{rank}.h5\", path: there}\n"
      "fallback: replicate\n"
      "tensors:\n"
      "  - {match: \"**.q.*\", shard: {0: {axes: tp, unit: 128}}, owner: {dp: $1/4}, rename: \"$2\", dtype: f32, "
      "optional: true}\n"
      "  - {match: x, drop: true}\n";
  CHECK(
      canonical(text) ==
      R"({"reshard":1,"source":{"axes":["tp=2"]},)"
      R"("target":{"axes":["dp=2","tp=2"],"files":"r{rank}.h5","ranks":[1,0,3,2],"views":{"e":["ep=4"]}},)"
      R"("tensors":[{"dtype":"f32","match":"**.q.*","optional":true,"rename":"$2",)"
      R"("source":{"owner":{"dp":{"count":4,"index":"$1"}},"shard":{"0":{"axes":["tp"],"fallback":"replicate","unit":128}}},)"
      R"("target":{"owner":{"dp":{"count":4,"index":"$1"}},"shard":{"0":{"axes":["tp"],"fallback":"replicate","unit":128}}}},)"
      R"({"drop":true,"match":"x"}],"unmatched":"error"})");
}

TEST_CASE("a rule that drops has a canonical form that can be read again") {
  const std::string text = canonical(
      "reshard: 1\ntarget: {axes: [tp=2]}\ntensors:\n"
      "  - {match: x, drop: true, optional: true, shard: {out: tp}, members: {weight: out in, \"bias?\": out}}\n");
  CHECK(
      text ==
      R"({"reshard":1,"source":{"axes":[]},"target":{"axes":["tp=2"]},)"
      R"("tensors":[{"drop":true,"match":"x","members":{"bias?":"out","weight":"out in"},"optional":true}],"unmatched":"error"})");
  CHECK(canonical(text) == text);
}

TEST_CASE("what means the same is the same") {
  const auto of = [](const std::string& rule) {
    return canonical("{reshard: 1, target: {axes: [tp=2]}, tensors: [{match: w, " + rule + "}]}");
  };
  CHECK(of("shard: {0: tp}") == of("shard: {0: [tp]}"));
  CHECK(of("shard: {0: tp}") == of("shard: {0: {axes: [{axis: tp}], unit: 1, split: even, fallback: error}}"));
  CHECK(of("shard: {0: tp}") == of("place: {tp: shard(0)}"));
  CHECK(of("shard: {0: tp}") == of("target: {shard: {0: tp}}, shard: {0: {axes: tp, unit: 1}}"));
  CHECK(of("shard: {0: {axes: tp, unit: 2, size: 4}}") == of("shard: {0: {size: 4, unit: 2, axes: tp}}"));
  CHECK(of("shard: {0: tp}") != of("shard: {1: tp}"));
}

TEST_CASE("what the command line changes is in the canonical form") {
  const std::string text =
      "{reshard: 1, vars: {n: 2}, target: {axes: [\"tp=${n}\"]}, tensors: [{match: a}, {match: b, optional: false}]}";
  PlanOptions options;
  CHECK(
      canonical(text, Notation::kYaml, options) ==
      R"({"reshard":1,"source":{"axes":[]},"target":{"axes":["tp=2"]},"tensors":[{"match":"a","source":{},"target":{}},)"
      R"({"match":"b","source":{},"target":{}}],"unmatched":"error"})");
  options.variables = {{"n", 4}};
  options.allow_extra = true;
  options.allow_missing = true;
  options.target_format = "safetensors";
  CHECK(canonical(text, Notation::kYaml, options) ==
        R"({"reshard":1,"source":{"axes":[]},"target":{"axes":["tp=4"],"format":"safetensors"},)"
        R"("tensors":[{"match":"a","optional":true,"source":{},"target":{}},)"
        R"({"match":"b","optional":true,"source":{},"target":{}}],"unmatched":"drop"})");
  options.target_format = "zarr";
  CHECK(refusals(text, Notation::kYaml, options) == "E_SCHEMA --target-format");
}

TEST_CASE("a plan file is JSON by its name, YAML otherwise") {
  CHECK(notation_of("plan.json") == Notation::kJson);
  CHECK(notation_of("plan.yaml") == Notation::kYaml);
  CHECK(notation_of("plan") == Notation::kYaml);
  CHECK(notation_of(".json") == Notation::kJson);
  CHECK(notation_of("json") == Notation::kYaml);
}
