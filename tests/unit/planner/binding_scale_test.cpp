#include <doctest/doctest.h>

#include <chrono>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner::test;
using reshard::planner::BoundPlan;
using reshard::planner::SourceTensor;

TEST_CASE("a model of 30,000 tensors under 50 rules on 2,048 ranks shares its layouts and is bound in seconds") {
  // 60 layers of 160 experts with three weights each, and ten more tensors per layer.
  std::string rules;
  for (int i = 0; i < 38; ++i)
    rules += fmt::format("  - {{match: \"encoder.layers.*.block{}.**.weight\", optional: true}}\n", i);
  const std::string yaml = fmt::format(R"(
reshard: 1
source: {{axes: [pp=4, dp=64, tp=4], views: {{expert: [pp=4, ep=16, edp=4, etp=4]}}}}
target: {{axes: [pp=4, dp=64, tp=8], views: {{expert: [pp=4, ep=32, edp=4, etp=4]}}}}
tensors:
{}  - {{match: "layers.*.experts.*.{{gate,up}}.weight", view: expert, owner: {{pp: $1/60, ep: $2/160}}, shard: {{0: etp}}}}
  - {{match: "layers.*.experts.*.down.weight", view: expert, owner: {{pp: $1/60, ep: $2/160}}, shard: {{1: etp}}}}
  - {{match: "layers.*.attn.q.weight", owner: {{pp: $1/60}}, shard: {{0: {{axes: tp, unit: 128}}}}}}
  - {{match: "layers.*.attn.{{k,v}}.weight", owner: {{pp: $1/60}}, shard: {{0: {{axes: tp, unit: 128, fallback: repeat, size: 512}}}}}}
  - {{match: "layers.*.attn.o.weight", owner: {{pp: $1/60}}, shard: {{1: {{axes: tp, unit: 128}}}}}}
  - {{match: "layers.*.norm?.weight", owner: {{pp: $1/60}}, optional: true}}
  - {{match: "layers.*.norm*.weight", owner: {{pp: $1/60}}}}
  - {{match: "layers.*.router.weight", owner: {{pp: $1/60}}}}
  - {{match: "embed", shard: {{0: tp}}, owner: {{pp: {{index: [0, 59], count: 60}}}}}}
)",
                                       rules);
  constexpr layout::Index kRanks = 1024;
  constexpr layout::Index kStage = 256;
  std::vector<SourceTensor> tensors;
  for (layout::Index layer = 0; layer < 60; ++layer) {
    const layout::Index first = layer / 15 * kStage;
    const auto add = [&](const std::string& name, Shape shape, layout::Index from, layout::Index count) {
      tensors.push_back({fmt::format("layers.{}.{}.weight", layer, name),
                         {{from, from + count - 1, std::move(shape), Dtype::kBf16, std::nullopt}},
                         nullptr});
    };
    for (layout::Index expert = 0; expert < 160; ++expert)
      for (const std::string name : {"gate", "up", "down"})
        add(fmt::format("experts.{}.{}", expert, name), name == "down" ? Shape{4096, 384} : Shape{384, 4096},
            first + expert / 10 * 16, 16);
    add("attn.q", {1024, 4096}, first, kStage);
    add("attn.k", {128, 4096}, first, kStage);
    add("attn.v", {128, 4096}, first, kStage);
    add("attn.o", {4096, 1024}, first, kStage);
    add("norm1", {4096}, first, kStage);
    add("norm2", {4096}, first, kStage);
    add("router", {160, 4096}, first, kStage);
  }
  tensors.push_back({"embed",
                     {{0, kStage - 1, {32000, 4096}, Dtype::kBf16, std::nullopt},
                      {kRanks - kStage, kRanks - 1, {32000, 4096}, Dtype::kBf16, std::nullopt}},
                     nullptr});
  const auto source = catalog(kRanks, std::move(tensors));
  const auto begin = std::chrono::steady_clock::now();
  const BoundPlan plan = bound(yaml, source);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  MESSAGE(plan.tensors.size(), " tensors, ", plan.layouts.size(), " layouts: ", took.count(), " s");
  CHECK(plan.tensors.size() == 60 * (160 * 3 + 7) + 1);
  // Per stage: 32 expert coordinates x 2 weights, and q and k and o and two vectors and the router; and the embedding.
  CHECK(plan.layouts.size() == 4 * (32 * 2 + 5) + 1);
  CHECK(took.count() < 20);
}
