#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "reshard/layout/cut.hpp"
#include "unit/plan/support.hpp"

using namespace reshard;
using namespace reshard::plan;
using namespace reshard::test;
using namespace reshard::layout;

namespace {

constexpr const char* kHead =
    "reshard: 1\nsource: {axes: [tp=2]}\ntarget: {axes: [cp=2, dp=3, gtp=4, tp=8]}\ntensors:\n  - ";

Rule rule_of(const std::string& rule) {
  return read_yaml(kHead + rule + "\n").rules.at(0);
}

/// The target's cut of the one dim that a `shard` names.
DimCut target_cut(const std::string& entry) {
  const Rule rule = rule_of("{match: w, shard: {0: " + entry + "}}");
  REQUIRE(rule.target.shard.size() == 1);
  return rule.target.shard[0].cut;
}

Level level(const std::string& axis, Index size) {
  Level out;
  out.axis = axis;
  out.axis_size = size;
  return out;
}

DimCut cut_of(std::vector<Level> levels) {
  DimCut cut;
  cut.levels = std::move(levels);
  return cut;
}

}  // namespace

TEST_CASE("an entry is a name, a list from major to minor, or a map") {
  CHECK(target_cut("tp") == cut_of({level("tp", 8)}));
  CHECK(target_cut("[tp]") == cut_of({level("tp", 8)}));
  CHECK(target_cut("{axes: tp}") == cut_of({level("tp", 8)}));
  CHECK(target_cut("{axes: [tp, gtp]}") == cut_of({level("tp", 8), level("gtp", 4)}));
  CHECK(target_cut("[gtp, tp]") == cut_of({level("gtp", 4), level("tp", 8)}));
}

TEST_CASE("axis sizes are those of each side, and an axis of the other side only has size 1") {
  const Rule rule = rule_of("{match: w, shard: {0: [tp, gtp], -1: dp}}");
  REQUIRE(rule.source.shard.size() == 2);
  CHECK(rule.source.shard[0].dim == "0");
  CHECK(rule.source.shard[0].cut == cut_of({level("tp", 2), level("gtp", 1)}));
  CHECK(rule.source.shard[1].dim == "-1");
  CHECK(rule.source.shard[1].cut == cut_of({level("dp", 1)}));
  CHECK(rule.target.shard[0].cut == cut_of({level("tp", 8), level("gtp", 4)}));
}

TEST_CASE("cutting options belong to the first axis, padding to the last") {
  Level tp = level("tp", 8);
  tp.unit = 128;
  tp.segments = {{1024, {}, {}}, {128, 16, Fallback::kRepeat}};
  tp.split = Split::kBalanced;
  tp.fallback = Fallback::kReplicate;
  Level gtp = level("gtp", 4);
  gtp.pad_to = 16;
  DimCut cut = cut_of({tp, gtp});
  cut.size = 1152;
  cut.fill = Fill::kLast;
  CHECK(target_cut(
            "{axes: [tp, gtp], unit: 128, segments: [1024, {size: 128, unit: 16, fallback: repeat}], split: balanced,"
            " fallback: replicate, pad_to: 16, size: 1152, fill: last}") == cut);

  Level strided = level("tp", 8);
  strided.stride = 2;
  strided.split = Split::kChunk;
  CHECK(target_cut("{axes: tp, stride: 2, split: chunk}") == cut_of({strided}));

  Level padded = level("tp", 8);
  padded.pad_rows = 3;
  DimCut vocabulary = cut_of({padded});
  vocabulary.pad_total = 128;
  CHECK(target_cut("{axes: tp, pad_total: 128, pad_rows: 3}") == vocabulary);
}

TEST_CASE("shares stand one per coordinate, and a side without the axis has one") {
  const Rule rule = rule_of("{match: w, shard: {0: {axes: dp, split: [9, 0, 7]}}}");
  Level dp = level("dp", 3);
  dp.split = Split::kShares;
  dp.shares = {9, 0, 7};
  CHECK(rule.target.shard[0].cut == cut_of({dp}));
  dp.axis_size = 1;
  dp.shares = {1};
  CHECK(rule.source.shard[0].cut == cut_of({dp}));
}

TEST_CASE("the long form gives options to a level that is not the first") {
  Level cp = level("cp", 2);
  cp.layout = SequenceLayout::kZigzag;
  CHECK(target_cut("{axes: [{axis: cp, layout: zigzag}, tp]}") == cut_of({cp, level("tp", 8)}));
  CHECK(target_cut("{axes: [cp, tp], layout: zigzag}") == cut_of({cp, level("tp", 8)}));
  Level chunked = level("dp", 3);
  chunked.split = Split::kChunk;
  CHECK(target_cut("[tp, {axis: dp, split: chunk}]") == cut_of({level("tp", 8), chunked}));
  Level padded = level("tp", 8);
  padded.pad_to = 4;
  CHECK(target_cut("{axes: [{axis: tp, pad_to: 4}, gtp]}") == cut_of({padded, level("gtp", 4)}));
}

TEST_CASE("sequence layouts have blocks, packed boundaries and padding") {
  Level striped = level("cp", 2);
  striped.layout = SequenceLayout::kStriped;
  striped.block = 16;
  CHECK(target_cut("{axes: cp, layout: striped, block: 16}") == cut_of({striped}));

  Level packed = level("cp", 2);
  packed.layout = SequenceLayout::kZigzag;
  packed.packed = PackedSequences{{0, 3, 3, 8}, {0, 4, 4, 12}, "", ""};
  packed.packed_padding = PackedPadding::kForbid;
  DimCut cut = cut_of({packed});
  cut.size = 12;
  CHECK(target_cut("{axes: cp, layout: zigzag, packed: {cu_seqlens: [0, 3, 3, 8], cu_seqlens_padded: [0, 4, 4, 12]},"
                   " padding: forbid, size: 12}") == cut);

  packed.packed = PackedSequences{{}, {}, "batch.cu_seqlens", "batch.cu_seqlens_padded"};
  packed.packed_padding = PackedPadding::kTemporary;
  cut = cut_of({packed});
  cut.pad_value = -100;
  CHECK(target_cut("{axes: cp, layout: zigzag, packed: {cu_seqlens: batch.cu_seqlens, cu_seqlens_padded: "
                   "batch.cu_seqlens_padded},"
                   " pad_value: -100}") == cut);
  cut.pad_value = 0.5;
  CHECK(target_cut("{axes: [{axis: cp, layout: zigzag, pad_value: 0.5, packed: {cu_seqlens: batch.cu_seqlens, "
                   "cu_seqlens_padded: "
                   "batch.cu_seqlens_padded}}]}") == cut);
}

TEST_CASE("a fallback is taken from the dim, else the rule, else the top level, for every level") {
  const auto fallbacks = [](const std::string& top, const std::string& rule, const std::string& entry) {
    const ParallelPlan plan = read_yaml("reshard: 1\n" + top + "target: {axes: [tp=2, gtp=2]}\ntensors: [{match: w, " +
                                        rule + " shard: {0: " + entry + "}}]\n");
    std::vector<Fallback> out;
    for (const Level& cut : plan.rules[0].target.shard[0].cut.levels) out.push_back(cut.fallback);
    return out;
  };
  using F = Fallback;
  CHECK(fallbacks("", "", "[tp, gtp]") == std::vector<F>{F::kError, F::kError});
  CHECK(fallbacks("fallback: replicate\n", "", "[tp, gtp]") == std::vector<F>{F::kReplicate, F::kReplicate});
  CHECK(fallbacks("fallback: replicate\n", "fallback: error,", "[tp, gtp]") == std::vector<F>{F::kError, F::kError});
  CHECK(fallbacks("", "fallback: replicate,", "{axes: [tp, gtp], fallback: repeat}") ==
        std::vector<F>{F::kRepeat, F::kReplicate});
}

TEST_CASE("a true size without axes is a dim that is not cut") {
  DimCut whole;
  whole.size = 101;
  const Rule rule = rule_of("{match: w, shard: {0: {size: 101}}, target: {shard: {0: {axes: tp, pad_total: 8}}}}");
  CHECK(rule.source.shard[0].cut == whole);
  DimCut cut = cut_of({level("tp", 8)});
  cut.size = 101;
  cut.pad_total = 8;
  CHECK(rule.target.shard[0].cut == cut);
}

TEST_CASE("a padded total without axes is of a dim that is not cut") {
  DimCut whole;
  whole.pad_total = 8;
  CHECK(rule_of("{match: w, target: {shard: {0: {pad_total: 8}}}}").target.shard[0].cut == whole);
}

TEST_CASE("a true size said of one side holds for the other") {
  const Rule rule = rule_of("{match: w, shard: {0: tp}, target: {shard: {0: {pad_total: 8, size: 102}}}}");
  CHECK(rule.source.shard[0].cut.size == 102);
  CHECK_FALSE(rule.source.shard[0].cut.pad_total.has_value());
  CHECK(
      refusals(std::string(kHead) +
               "{match: w, source: {shard: {0: {axes: tp, size: 16}}}, target: {shard: {0: {axes: tp, size: 24}}}}") ==
      "E_SHAPE p:5:5");
}
