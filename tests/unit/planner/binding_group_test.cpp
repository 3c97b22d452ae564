#include <doctest/doctest.h>

#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner::test;
using reshard::planner::BoundPlan;
using reshard::planner::SourceCatalog;
using reshard::planner::SourceTensor;

namespace {

std::string group(std::string_view source, std::string_view target, std::string_view rule) {
  return fmt::format("{{reshard: 1, source: {{axes: [{}]}}, target: {{axes: [{}]}}, tensors: [{{match: g, {}}}]}}",
                     source, target, rule);
}

const std::vector<layout::DimCut>& placed(const BoundPlan& plan, std::string_view name) {
  return plan.layouts[tensor(plan, name).layout].target_placement.dims;
}

layout::DimCut even(std::string axis, layout::Index size, layout::Index unit = 1) {
  layout::Level level;
  level.axis = std::move(axis);
  level.axis_size = size;
  level.unit = unit;
  layout::DimCut out;
  out.levels = {level};
  return out;
}

}  // namespace

TEST_CASE("block scales follow the weight in whole blocks") {
  constexpr std::string_view kRule = "shard: {in: tp}, members: {weight: out in, scale: out/4 in/4}";
  const BoundPlan cut =
      bound(group("", "tp=2", kRule),
            catalog(1, {everywhere("g.weight", 1, {4, 8}, Dtype::kF8E4M3), everywhere("g.scale", 1, {1, 2})}));
  CHECK(target_shards(cut, "g.weight") == Shards{"[0-4, 0-4]", "[0-4, 4-8]"});
  CHECK(target_shards(cut, "g.scale") == Shards{"[0-1, 0-1]", "[0-1, 1-2]"});
  CHECK(placed(cut, "g.scale") == std::vector<layout::DimCut>{{}, even("tp", 2)});

  CHECK(refusal(group("", "tp=2", kRule),
                catalog(1, {everywhere("g.weight", 1, {4, 6}, Dtype::kF8E4M3), everywhere("g.scale", 1, {1, 2})})) ==
        Lines{"E_UNIT_SPLIT: p.yaml:1: tensors[0]: tensor 'g.weight': target: dim 'in' of member 'scale': a boundary "
              "at 3 cuts a "
              "block of 4; "
              "boundaries must be multiples of 4 or end the dim; legal sizes of 'tp': 1"});

  const BoundPlan joined =
      bound(group("tp=2", "", kRule),
            catalog(2, {everywhere("g.weight", 2, {4, 4}, Dtype::kF8E4M3), everywhere("g.scale", 2, {1, 1})}));
  CHECK(source_shards(joined, "g.scale") == Shards{"[0-1, 0-1]", "[0-1, 1-2]"});
  CHECK(target_shards(joined, "g.weight") == Shards{"[0-4, 0-8]"});
  CHECK(target_shards(joined, "g.scale") == Shards{"[0-1, 0-2]"});
}

TEST_CASE("packed words, zero points, scales and group indices are one partition") {
  const auto source = [](layout::Index out) {
    return catalog(
        1, {everywhere("g.qweight", 1, {2, out}, Dtype::kI32), everywhere("g.qzeros", 1, {2, out / 8}, Dtype::kI32),
            everywhere("g.scales", 1, {2, out}, Dtype::kF16), everywhere("g.g_idx", 1, {16}, Dtype::kI32)});
  };
  const auto rule = [](std::string_view dim) {
    return fmt::format(
        "shard: {{{}: tp}}, members: {{qweight: in/8 out, qzeros: in/8 out/8, scales: in/8 out, g_idx: in}}", dim);
  };
  const BoundPlan columns = bound(group("", "tp=2", rule("out")), source(16));
  CHECK(target_shards(columns, "g.qweight") == Shards{"[0-2, 0-8]", "[0-2, 8-16]"});
  CHECK(target_shards(columns, "g.qzeros") == Shards{"[0-2, 0-1]", "[0-2, 1-2]"});
  CHECK(target_shards(columns, "g.g_idx") == Shards{"[0-16]", "[0-16]"});
  const BoundPlan rows = bound(group("", "tp=2", rule("in")), source(16));
  CHECK(target_shards(rows, "g.qweight") == Shards{"[0-1, 0-16]", "[1-2, 0-16]"});
  CHECK(target_shards(rows, "g.qzeros") == Shards{"[0-1, 0-2]", "[1-2, 0-2]"});
  CHECK(target_shards(rows, "g.g_idx") == Shards{"[0-8]", "[8-16]"});
  CHECK(codes(group("", "tp=2", rule("out")), source(24)) == Lines{"E_UNIT_SPLIT g.qweight"});
}

TEST_CASE("a dim that only packed members carry is as long as the finest of them says") {
  constexpr std::string_view kRule = "shard: {in: tp}, members: {packed: out in/8, scale: out in/16, shape: '.'}";
  const BoundPlan plan = bound(group("", "tp=2", kRule), catalog(1, {everywhere("g.packed", 1, {4, 4}, Dtype::kI32),
                                                                     everywhere("g.scale", 1, {4, 2}),
                                                                     everywhere("g.shape", 1, {2}, Dtype::kI64)}));
  CHECK(target_shards(plan, "g.packed") == Shards{"[0-4, 0-2]", "[0-4, 2-4]"});
  CHECK(target_shards(plan, "g.scale") == Shards{"[0-4, 0-1]", "[0-4, 1-2]"});
  CHECK(target_shards(plan, "g.shape") == Shards{"[0-2]", "[0-2]"});
  CHECK(refusal(group("", "tp=2", kRule),
                catalog(1, {everywhere("g.packed", 1, {4, 4}, Dtype::kI32), everywhere("g.scale", 1, {4, 3}),
                            everywhere("g.shape", 1, {2}, Dtype::kI64)})) ==
        Lines{"E_MEMBER_SIZE: p.yaml:1: tensors[0]: tensor 'g.packed': source: dim 'in': member 'scale': rank 0 stores "
              "3 entries, "
              "expected 2 of "
              "the 32 elements of the dim"});
}

TEST_CASE("the last block may be short, and `size` tells how short") {
  // 259 x 130 with scales of 128 x 128: rows 0-256 and 256-259, scale rows 0-2 and 2-3.
  const BoundPlan plan = bound(
      group("", "tp=2",
            "shard: {out: {axes: tp, unit: 128, split: balanced}}, members: {weight: out in, scale: out/128 in/128}"),
      catalog(1, {everywhere("g.weight", 1, {259, 130}), everywhere("g.scale", 1, {3, 2})}));
  CHECK(target_shards(plan, "g.weight") == Shards{"[0-256, 0-130]", "[256-259, 0-130]"});
  CHECK(target_shards(plan, "g.scale") == Shards{"[0-2, 0-2]", "[2-3, 0-2]"});
  layout::DimCut blocks = even("tp", 2);
  blocks.levels[0].split = layout::Split::kBalanced;
  CHECK(placed(plan, "g.scale") == std::vector<layout::DimCut>{blocks, {}});

  const BoundPlan sized =
      bound(group("", "tp=3", "shard: {in: {axes: tp, unit: 4, split: balanced, size: 19}}, members: {q: in/2}"),
            catalog(1, {everywhere("g.q", 1, {10})}));
  CHECK(target_shards(sized, "g.q") == Shards{"[0-4]", "[4-8]", "[8-10]"});
  CHECK(codes(group("", "tp=3", "shard: {in: {axes: tp, unit: 4, split: balanced, size: 22}}, members: {q: in/2}"),
              catalog(1, {everywhere("g.q", 1, {10})})) == Lines{"E_MEMBER_SIZE g.q"});
}

TEST_CASE("shares of whole blocks are shares of blocks in the manifest") {
  const BoundPlan plan = bound(
      group("", "tp=2", "shard: {out: {axes: tp, unit: 128, split: [1, 2]}}, members: {weight: out, scale: out/128}"),
      catalog(1, {everywhere("g.weight", 1, {300}), everywhere("g.scale", 1, {3})}));
  CHECK(target_shards(plan, "g.scale") == Shards{"[0-1]", "[1-3]"});
  layout::DimCut shares = even("tp", 2);
  shares.levels[0].split = layout::Split::kShares;
  shares.levels[0].shares = {1, 2};
  CHECK(placed(plan, "g.scale") == std::vector<layout::DimCut>{shares});
}

TEST_CASE("a head that is one block is repeated with its scales") {
  constexpr std::string_view kRule =
      "shard: {out: {axes: tp, unit: 16, fallback: repeat, size: 16}}, members: {weight: out in, scale: out/16 in/16}";
  const BoundPlan plan = bound(group("", "tp=2", kRule),
                               catalog(1, {everywhere("g.weight", 1, {16, 32}), everywhere("g.scale", 1, {1, 2})}));
  CHECK(target_shards(plan, "g.weight") == Shards{"[0-16, 0-32]", "[0-16, 0-32]"});
  CHECK(target_shards(plan, "g.scale") == Shards{"[0-1, 0-2]", "[0-1, 0-2]"});
  CHECK(plan.warnings.size() == 1);
  const BoundPlan back = bound(group("tp=2", "", kRule),
                               catalog(2, {everywhere("g.weight", 2, {16, 32}), everywhere("g.scale", 2, {1, 2})}));
  CHECK(target_shards(back, "g.scale") == Shards{"[0-1, 0-2]"});
}

TEST_CASE("block numbering restarts with fused parts where the stored size says so") {
  constexpr std::string_view kRule =
      "shard: {out: {axes: tp, segments: [100, 156]}}, members: {weight: out, scale: out/64}";
  // 100 + 156 has 2 + 3 blocks where numbering restarts, 4 where it does not.
  const BoundPlan plan =
      bound(group("", "tp=1", kRule), catalog(1, {everywhere("g.weight", 1, {256}), everywhere("g.scale", 1, {5})}));
  CHECK(target_shards(plan, "g.scale") == Shards{"[0-5]"});
  const BoundPlan through =
      bound(group("", "tp=1", kRule), catalog(1, {everywhere("g.weight", 1, {256}), everywhere("g.scale", 1, {4})}));
  CHECK(target_shards(through, "g.scale") == Shards{"[0-4]"});
  CHECK(
      codes(group("", "tp=1", kRule), catalog(1, {everywhere("g.weight", 1, {256}), everywhere("g.scale", 1, {6})})) ==
      Lines{"E_MEMBER_SIZE g.weight"});
  const BoundPlan aligned =
      bound(group("", "tp=2", "shard: {out: {axes: tp, segments: [8, 16]}}, members: {weight: out, scale: out/4}"),
            catalog(1, {everywhere("g.weight", 1, {24}), everywhere("g.scale", 1, {6})}));
  CHECK(target_shards(aligned, "g.scale") == Shards{"[0-1 2-4]", "[1-2 4-6]"});
  CHECK(codes(group("", "tp=2",
                    "shard: {out: {axes: tp, unit: 64, split: balanced, segments: [100, 100]}}, members: {weight: "
                    "out, scale: out/64}"),
              catalog(1, {everywhere("g.weight", 1, {200}), everywhere("g.scale", 1, {4})})) ==
        Lines{"E_MEMBER_SIZE g.weight"});
}

TEST_CASE("an inner axis cuts no block either") {
  CHECK(codes(group("", "gtp=2, tp=2", "shard: {out: [tp, gtp]}, members: {weight: out in, scale: out/128 in}"),
              catalog(1, {everywhere("g.weight", 1, {256, 8}), everywhere("g.scale", 1, {2, 8})})) ==
        Lines{"E_UNIT_SPLIT g.weight"});
}

TEST_CASE("blocks of a padded dim are padded on their own") {
  // 40 rows over gtp=4, padded to 64: 16 rows each; blocks of 8: 2 per rank, 5 true ones.
  const BoundPlan plan =
      bound(group("", "gtp=4", "shard: {out: {axes: gtp, pad_to: 16}}, members: {weight: out, scale: out/8}"),
            catalog(1, {everywhere("g.weight", 1, {40}), everywhere("g.scale", 1, {5})}));
  CHECK(target_shards(plan, "g.weight") == Shards{"[0-16]", "[16-32]", "[32-40 +8]", "[+16]"});
  CHECK(target_shards(plan, "g.scale") == Shards{"[0-2]", "[2-4]", "[4-5 +1]", "[+2]"});
  layout::DimCut padded = even("gtp", 4);
  padded.levels[0].pad_to = 2;
  CHECK(placed(plan, "g.scale") == std::vector<layout::DimCut>{padded});

  const BoundPlan vocabulary =
      bound(group("", "tp=2",
                  "shard: {out: tp}, members: {weight: out, scale: out/8}, target: {shard: {out: {pad_total: 32}}}"),
            catalog(1, {everywhere("g.weight", 1, {40}), everywhere("g.scale", 1, {5})}));
  CHECK(target_shards(vocabulary, "g.scale") == Shards{"[0-4]", "[4-5 +3]"});
  layout::DimCut total = even("tp", 2);
  total.pad_total = 4;
  CHECK(placed(vocabulary, "g.scale") == std::vector<layout::DimCut>{total});
}

TEST_CASE("a group falls back as a whole") {
  const BoundPlan plan =
      bound(group("", "tp=3", "shard: {out: {axes: tp, fallback: replicate}}, members: {weight: out in, bias: out}"),
            catalog(1, {everywhere("g.weight", 1, {10, 4}), everywhere("g.bias", 1, {10})}));
  CHECK(target_shards(plan, "g.weight") == Shards{"[0-10, 0-4]", "[0-10, 0-4]", "[0-10, 0-4]"});
  CHECK(target_shards(plan, "g.bias") == Shards{"[0-10]", "[0-10]", "[0-10]"});
  CHECK(
      lines(plan.warnings) ==
      Lines{
          "W_FALLBACK: p.yaml:1: tensors[0]: target: 'tp' of size 3 cannot cut as asked and is ignored (`fallback: "
          "replicate`): "
          "'g.bias', "
          "'g.weight'",
          "W_AXIS_IDLE: p.yaml: target axis 'tp' of size 3 cuts nothing: every tensor is stored once per coordinate"});
  CHECK(codes(group("", "tp=3", "shard: {out: tp}, members: {weight: out in, bias: out}"),
              catalog(1, {everywhere("g.weight", 1, {10, 4}), everywhere("g.bias", 1, {10})})) ==
        Lines{"E_INDIVISIBLE g.weight"});
}

TEST_CASE("the bias of a row-parallel layer stays whole, that of a column-parallel one is cut") {
  const auto source = catalog(2, {everywhere("g.weight", 2, {4, 4}), everywhere("g.bias", 2, {4})});
  const BoundPlan row = bound(group("tp=2", "tp=4", "projection: row"), source);
  CHECK(target_shards(row, "g.weight") == Shards{"[0-4, 0-2]", "[0-4, 2-4]", "[0-4, 4-6]", "[0-4, 6-8]"});
  CHECK(target_shards(row, "g.bias") == Shards{"[0-4]", "[0-4]", "[0-4]", "[0-4]"});
  const BoundPlan column = bound(group("tp=2", "", "projection: column"), source);
  CHECK(source_shards(column, "g.bias") == Shards{"[0-4]", "[4-8]"});
  CHECK(refusal(group("tp=2", "", "projection: column"),
                catalog(2, {everywhere("g.weight", 2, {4, 4}), everywhere("g.bias", 2, {2})})) ==
        Lines{"E_MEMBER_SIZE: p.yaml:1: tensors[0]: tensor 'g.weight': source: dim 'out': on rank 0 member 'weight' "
              "stores 4, but "
              "member 'bias' "
              "stores 2"});
}

TEST_CASE("a group without one of its members, or with one taken away, is incomplete") {
  const std::string plan = R"(
reshard: 1
source: {}
target: {axes: []}
tensors:
  - {match: "**.bias"}
  - {match: "*", members: {weight: out in, scale: out, "bias?": out}}
)";
  CHECK(refusal(plan, catalog(1, {everywhere("a.weight", 1, {4, 4}), everywhere("a.scale", 1, {4}),
                                  everywhere("a.bias", 1, {4}), everywhere("b.weight", 1, {4, 4}),
                                  everywhere("c.weight", 1, {4, 4})})) ==
        Lines{"E_GROUP_INCOMPLETE: p.yaml:7: tensors[1]: tensor 'a.weight': member 'bias' of group 'a' is taken by "
              "tensors[0]; a "
              "group is "
              "cut as a whole",
              "E_GROUP_INCOMPLETE: p.yaml:7: tensors[1]: tensor 'b.weight': group 'b' has no member 'scale'; where it "
              "may be absent "
              "write \"scale?\" (and 1 more tensor of this rule)"});
}

TEST_CASE("members with other dims than the plan says are refused") {
  CHECK(refusal(group("", "tp=1", "shard: {out: tp}, members: {weight: out in}"),
                catalog(1, {everywhere("g.weight", 1, {4})})) ==
        Lines{"E_MEMBER_SIZE: p.yaml:1: tensors[0]: tensor 'g.weight': source: member 'weight' has 1 dims on rank 0, "
              "expected 2"});
}

TEST_CASE("the target may give a member other dims") {
  const BoundPlan plan = bound(group("", "tp=2",
                                     "shard: {in: tp}, members: {weight: out in, scale: out in/4}, target: {members: "
                                     "{weight: out in, scale: out .}}"),
                               catalog(1, {everywhere("g.weight", 1, {4, 8}), everywhere("g.scale", 1, {4, 2})}));
  CHECK(target_shards(plan, "g.weight") == Shards{"[0-4, 0-4]", "[0-4, 4-8]"});
  CHECK(target_shards(plan, "g.scale") == Shards{"[0-4, 0-2]", "[0-4, 0-2]"});
}

TEST_CASE("a target that numbers groups locally stores their members so") {
  const BoundPlan plan = bound(R"(
reshard: 1
source: {}
target: {axes: [ep=2]}
tensors:
  - match: "e.*"
    target: {owner: {ep: {index: $1, count: 4, numbering: local}}}
    members: {weight: out in}
    rename: "x.$1.mlp"
)",
                               catalog(1, {everywhere("e.0.weight", 1, {4, 4}), everywhere("e.1.weight", 1, {4, 4}),
                                           everywhere("e.2.weight", 1, {4, 4}), everywhere("e.3.weight", 1, {4, 4})}));
  CHECK(plan.tensors.at(3).target_name == "x.3.mlp.weight");
  CHECK(plan.tensors.at(3).target_stored_name() == "x.1.mlp.weight");
  CHECK(target_shards(plan, "x.3.mlp.weight") == Shards{"-", "[0-4, 0-4]"});
}

TEST_CASE("grouped experts keep group and owner together") {
  const auto source = catalog(2, {everywhere("e.0.weight", 2, {4, 4}), everywhere("e.0.scale", 2, {2, 4})});
  const BoundPlan plan = bound(R"(
reshard: 1
source: {axes: [ep=2]}
target: {axes: []}
tensors:
  - match: "e.*"
    owner: {ep: {index: $1, count: 2, numbering: local}}
    members: {weight: out in, scale: out/2 in}
    rename: "x.$1"
)",
                               source);
  Lines names;
  for (const auto& bound_tensor : plan.tensors)
    names.push_back(fmt::format("{} {} {} {}", bound_tensor.source_name, bound_tensor.source_stored_name(),
                                bound_tensor.target_name, bound_tensor.target_stored_name()));
  CHECK(names == Lines{"e.0.scale e.0.scale x.0.scale x.0.scale", "e.0.weight e.0.weight x.0.weight x.0.weight",
                       "e.1.scale e.0.scale x.1.scale x.1.scale", "e.1.weight e.0.weight x.1.weight x.1.weight"});
}
