#include <doctest/doctest.h>

#include <string>

#include "unit/plan/plan_texts.hpp"
#include "unit/plan/support.hpp"

using namespace reshard;
using namespace reshard::test;

TEST_CASE("every plan of the format's description and of the real checkpoints is read") {
  for (const PlanText& plan : kPlanTexts) {
    CAPTURE(plan.name);
    CHECK(refusals(plan.text) == "read");
  }
}

TEST_CASE("the short forms of the format's description are read") {
  const std::string head =
      "reshard: 1\nsource: {axes: [pp=2, tp=2, cp=2], views: {expert: [ep=4, etp=2]}}\n"
      "target: {axes: [pp=1, tp=4, cp=1]}\ntensors:\n";
  for (
      const std::string rule : {
          R"(- {match: "embedding.**", owner: {pp: "0/32"}, shard: {0: tp}})",
          R"(- {match: "decoder.final_layernorm.weight", owner: {pp: "31/32"}})",
          R"(- {match: "decoder.layers.*.mlp.linear_fc2.weight", owner: {pp: {index: $1, count: 32, numbering: local}}, shard: {1: tp}})",
          R"(- {match: "model.layers.*.mlp.down_proj.weight", rename: "blk.$1.ffn_down.weight", dtype: f32, shard: {1: tp}})",
          R"(- {match: "saved.hidden", shard: {0: {axes: [cp, tp], layout: zigzag}}, target: {shard: {0: {layout: contiguous}}}})",
          R"(- {match: "**.experts.gate_up_proj", view: expert, shard: {0: ep, 1: {axes: etp, segments: [14336, 14336]}}})",
          "- match: \"**.{gate,up}_proj\"\n  shard: {out: tp}\n"
          "  members: {weight: out in, weight_scale_inv: out/128 in/128, \"bias?\": out}",
          R"(- {match: "**.q_proj", projection: column, shard: {out: {unit: 128}}})",
      }) {
    CAPTURE(rule);
    CHECK(refusals(head + rule + "\n") == "read");
  }
  CHECK(
      refusals(
          "reshard: 1\nsource: {axes: []}\ntarget: {axes: [tp=4]}\ntensors:\n"
          "- {match: model.embed_tokens.weight, shard: {0: tp}, target: {shard: {0: {pad_total: 8, size: 101}}}}\n") ==
      "read");
}
