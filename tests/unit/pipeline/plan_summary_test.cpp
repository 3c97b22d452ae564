#include "reshard/pipeline/plan_summary.hpp"

#include <doctest/doctest.h>

#include "unit/pipeline/checkpoint_fixtures.hpp"

using namespace reshard;
using pipeline::CutSummary;
using pipeline::PlanSummary;
using planner::Transfer;
using test::TemporaryDirectory;
using test::write_checkpoint;

namespace {

PlanSummary summarized(const test::PreparedPlan& plan, const pipeline::ListingOptions& listing = {}) {
  return pipeline::summarize(*plan.prepared, plan.options, listing);
}

std::vector<std::string> names(const PlanSummary& summary) {
  std::vector<std::string> out;
  for (const pipeline::TensorSummary& tensor : summary.tensors) out.push_back(tensor.name);
  return out;
}

/// Of rows that `axes` cut on both sides, from `source` to `target`. The source stores 4 on every rank, `last` on the
/// last one.
CutSummary cut_of(const std::string& axes, const std::string& source, const std::string& target,
                  planner::Index last = 4) {
  const TemporaryDirectory directory;
  for (const std::string rank : {"0", "1", "2", "3"})
    write_checkpoint(directory.path() / ("rank-0000" + rank + ".safetensors"),
                     {{"w", Dtype::kF32, {rank == "3" ? last : 4}, {12 + last}}});
  const auto plan = test::prepare_plan("{reshard: 1, source: {axes: " + axes + "}, target: {axes: " + axes +
                                           "}, tensors: [{match: w, source: {shard: {0: " + source +
                                           "}}, target: {shard: {0: " + target + "}}}]}",
                                       directory.path());
  const PlanSummary summary = summarized(plan);
  REQUIRE(summary.layouts.size() == 1);
  REQUIRE(summary.layouts[0].cuts.size() == 1);
  CHECK(summary.layouts[0].cuts[0].source == summary.layouts[0].cuts[0].target);
  return summary.layouts[0].cuts[0];
}

}  // namespace

TEST_CASE("what equal axes change is told") {
  using pipeline::PartsChange;
  const auto change = [](const std::string& source, const std::string& target) {
    return cut_of("[cp=4]", source, target).change;
  };
  CHECK(change("{axes: cp}", "{axes: cp, unit: 2}") == PartsChange::kNone);
  const CutSummary zigzag = cut_of("[cp=4]", "{axes: cp, layout: zigzag}", "{axes: cp}");
  CHECK(zigzag.change == PartsChange::kPieces);
  CHECK(zigzag.source_pieces == 2);
  CHECK(zigzag.target_pieces == 1);
  const CutSummary segments = cut_of("[cp=4]", "{axes: cp}", "{axes: cp, segments: [8, 4, 4]}");
  CHECK(segments.source_pieces == 1);
  CHECK(segments.target_pieces == 3);
  CHECK(change("{axes: cp, segments: [8, 8]}", "{axes: cp, segments: [4, 12]}") == PartsChange::kOrder);
  CHECK(change("{axes: cp}", "{axes: cp, split: [5, 4, 4, 3]}") == PartsChange::kLengths);
  CHECK(change("{axes: cp}", "{axes: cp, pad_to: 3}") == PartsChange::kLengths);  // 6, 6, 4, 0
  CHECK(cut_of("[cp=4]", "{axes: cp, split: chunk}", "{axes: cp, pad_to: 4}", 3).change == PartsChange::kPadding);
  CHECK(cut_of("[a=2, b=2]", "[a, b]", "[b, a]").change == PartsChange::kOrder);
}

TEST_CASE("rows from two ranks to four, with a replica, another name and another dtype") {
  const TemporaryDirectory source;
  for (const char* rank : {"0", "1"})
    write_checkpoint(source.path() / ("rank-0000" + std::string(rank) + ".safetensors"),
                     {{"w", Dtype::kF32, {4, 2}, {8, 2}}, {"n", Dtype::kI64, {3}, {3}}});
  pipeline::PrepareOptions options;
  options.processes = 2;
  options.transport = pipeline::Transport::kMpi;
  const auto plan = test::prepare_plan(R"(
reshard: 1
source: {axes: [tp=2]}
target: {axes: [dp=2, tp=2]}
tensors:
  - {match: w, shard: {0: tp}, rename: v, dtype: f64, target: {shard: {0: null, 1: tp}}}
  - {match: n}
)",
                                       source.path(), options);
  const PlanSummary summary = summarized(plan);

  CHECK(summary.header.source.axes == std::vector<std::string>{"tp=2"});
  CHECK(summary.header.source.bytes == 2 * (32 + 24));
  CHECK(summary.header.target.ranks == 4);
  CHECK(summary.header.target.bytes == 4 * (64 + 24));
  CHECK(summary.header.processes == 2);
  CHECK(summary.header.transport == "mpi");
  CHECK(summary.header.totals.tensors == 2);
  CHECK(summary.header.totals.transfers == 8 + 4);
  CHECK(summary.header.totals.bytes_read == 64 + 24);
  CHECK(summary.header.totals.bytes_written == 4 * (64 + 24));
  CHECK(summary.header.totals.padding_bytes == 0);
  CHECK(summary.header.totals.rounds == 1);
  CHECK(summary.header.memory_bound_bytes == std::int64_t{512} << 20);
  CHECK(summary.header.peak_staging_bytes.size() == 2);

  CHECK(names(summary) == std::vector<std::string>{"n", "v"});
  const pipeline::TensorSummary& v = summary.tensors[1];
  CHECK(v.source_name == "w");
  CHECK(v.dtype == Dtype::kF64);
  CHECK(v.source_dtype == Dtype::kF32);
  const pipeline::LayoutSummary& layout = summary.layouts[v.layout];
  CHECK(layout.rule == 0);
  CHECK(layout.shape == Shape{8, 2});
  CHECK(layout.source_shard_shape == Shape{4, 2});
  CHECK(layout.target_shard_shape == Shape{8, 1});
  CHECK(layout.target_shard_shapes.empty());
  CHECK(layout.cuts == std::vector<CutSummary>{{0, {{"tp", 2}}, {}}, {1, {}, {{"tp", 2}}}});
  CHECK(summary.transfers[v.transfers].first_tensor == 1);
  const std::vector<Transfer>& transfers = summary.transfers[v.transfers].transfers;
  REQUIRE(transfers.size() == 8);
  CHECK(transfers[0] == Transfer{0, 0, {{0, 4}, {0, 1}}, {{0, 4}, {0, 1}}});
  CHECK(transfers[1] == Transfer{1, 0, {{0, 4}, {0, 1}}, {{4, 8}, {0, 1}}});
  CHECK(transfers[2] == Transfer{0, 1, {{0, 4}, {1, 2}}, {{0, 4}, {0, 1}}});

  // Two dp copies of "v": 16 bytes from each source rank to each target rank; "n" comes whole from one of its holders.
  const planner::Index holder = summary.transfers[summary.tensors[0].transfers].transfers[0].source_rank;
  std::vector<pipeline::TrafficEntry> expected;
  for (planner::Index from = 0; from < 2; ++from)
    for (planner::Index to = 0; to < 4; ++to) expected.push_back({from, to, from == holder ? 16 + 24 : 16});
  CHECK(summary.traffic == expected);

  CHECK(summary.ranks[3] == pipeline::RankSummary{3, {{"dp", 1}, {"tp", 1}}, "rank-00003.safetensors", 2, 64 + 24});
  CHECK(summary.copy_axes == std::vector<pipeline::CopyAxis>{{"target", "", {"dp", 2}}});
}

TEST_CASE("a direct plan keeps no rounds and counts as one") {
  const TemporaryDirectory source;
  write_checkpoint(source.path() / "model.safetensors", {{"w", Dtype::kF32, {4}, {4}}});
  const auto plan = test::prepare_plan(
      "{reshard: 1, source: {axes: []}, target: {axes: [tp=2]}, tensors: [{match: w, shard: {0: tp}}]}", source.path());
  const pipeline::PlanHeader header = pipeline::plan_header(*plan.prepared, plan.options);
  CHECK(header.transport == "direct");
  CHECK(header.totals.rounds == 1);
  CHECK(header.totals.bytes_exchanged == 0);
  CHECK(header.estimate.seconds >= header.estimate.floor_seconds);
}

TEST_CASE("equal transfers are listed once, and counted in full") {
  const TemporaryDirectory source;
  write_checkpoint(
      source.path() / "model.safetensors",
      {{"a", Dtype::kF32, {4, 2}, {4, 2}}, {"b", Dtype::kF64, {4, 2}, {4, 2}}, {"c", Dtype::kF32, {4, 4}, {4, 4}}});
  const auto plan = test::prepare_plan(
      "{reshard: 1, source: {axes: []}, target: {axes: [tp=2]}, tensors: [{match: '*', shard: {0: tp}}]}",
      source.path());
  const PlanSummary summary = summarized(plan);
  CHECK(summary.header.totals.transfers == 6);
  CHECK(summary.transfers.size() == 2);
  CHECK(summary.tensors[0].transfers == 0);
  CHECK(summary.tensors[1].transfers == 0);
  CHECK(summary.tensors[2].transfers == 1);
  CHECK(summary.transfers[1].first_tensor == 2);

  pipeline::ListingOptions without;
  without.transfers = pipeline::ListedTransfers::kNone;
  CHECK(summarized(plan, without).transfers.empty());
}

TEST_CASE("padding is stored, counted and not moved") {
  const TemporaryDirectory source;
  write_checkpoint(source.path() / "model.safetensors", {{"w", Dtype::kF32, {10, 2}, {10, 2}}});
  const auto plan = test::prepare_plan(R"(
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors: [{match: w, target: {shard: {0: {axes: tp, pad_total: 4, size: 10}}}}]
)",
                                       source.path());
  const PlanSummary summary = summarized(plan);
  CHECK(summary.header.totals.bytes_written == 16 * 2 * 4);
  CHECK(summary.header.totals.padding_bytes == 6 * 2 * 4);
  CHECK(summary.traffic == std::vector<pipeline::TrafficEntry>{{0, 0, 64}, {0, 1, 16}});
}

TEST_CASE("replicas that share a file write it once") {
  const TemporaryDirectory source;
  write_checkpoint(source.path() / "model.safetensors", {{"w", Dtype::kF32, {4}, {4}}});
  const auto plan = test::prepare_plan(R"(
reshard: 1
source: {axes: []}
target: {axes: [dp=3, tp=2], files: "part-{tp}.safetensors"}
tensors: [{match: w, shard: {0: tp}}]
)",
                                       source.path());
  const PlanSummary summary = summarized(plan);
  CHECK(summary.header.totals.bytes_written == 16);
  CHECK(summary.header.target.bytes == 16);
  CHECK(summary.ranks[5] == pipeline::RankSummary{5, {{"dp", 2}, {"tp", 1}}, "part-1.safetensors", 1, 8});
  CHECK(summary.header.totals.transfers == 6);
}

TEST_CASE("shards that differ are listed by rank, with nothing where a rank has none") {
  const TemporaryDirectory source;
  write_checkpoint(source.path() / "model.safetensors",
                   {{"l.0", Dtype::kF32, {2}, {2}}, {"l.1", Dtype::kF32, {2}, {2}}, {"w", Dtype::kF32, {3}, {3}}});
  const auto plan = test::prepare_plan(R"(
reshard: 1
source: {axes: []}
target: {axes: [pp=2]}
tensors:
  - {match: "l.*", owner: {pp: "$1/2"}}
  - {match: w, shard: {0: {axes: pp, split: balanced}}}
)",
                                       source.path());
  const PlanSummary summary = summarized(plan);
  const auto shapes = [&](std::size_t t) { return summary.layouts[summary.tensors[t].layout].target_shard_shapes; };
  CHECK(shapes(0) == std::vector<std::optional<Shape>>{Shape{2}, std::nullopt});
  CHECK(shapes(1) == std::vector<std::optional<Shape>>{std::nullopt, Shape{2}});
  CHECK(shapes(2) == std::vector<std::optional<Shape>>{Shape{2}, Shape{1}});
  CHECK(summary.layouts[summary.tensors[0].layout].cuts == std::vector<CutSummary>{{std::nullopt, {}, {{"pp", 2}}}});
  CHECK(summary.ranks[1].tensors == 2);
  CHECK(summary.ranks[1].bytes == 8 + 4);
  CHECK(summary.copy_axes.empty());
}

TEST_CASE("a listing is narrowed by name and by rank, totals are not") {
  const TemporaryDirectory source;
  write_checkpoint(
      source.path() / "model.safetensors",
      {{"a.v", Dtype::kF32, {2, 2}, {2, 2}}, {"a.w", Dtype::kF32, {4}, {4}}, {"b.w", Dtype::kF32, {4}, {4}}});
  const auto plan = test::prepare_plan(R"(
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors:
  - {match: "*.w", shard: {0: tp}}
  - {match: "*.v", shard: {1: tp}}
)",
                                       source.path());
  pipeline::ListingOptions by_name;
  by_name.tensor = plan::NamePattern("a.*");
  CHECK(names(summarized(plan, by_name)) == std::vector<std::string>{"a.v", "a.w"});
  CHECK(summarized(plan, by_name).header.totals.tensors == 3);

  pipeline::ListingOptions by_rank;
  by_rank.rank = 1;
  const PlanSummary local = summarized(plan, by_rank);
  REQUIRE(local.local.size() == 3);
  CHECK(local.local[0].name == "a.v");
  CHECK(local.local[0].shape == Shape{2, 1});
  CHECK(local.local[0].bytes == 8);
  CHECK(local.local[0].file == "rank-00001.safetensors");
  CHECK(local.transfers[local.tensors[1].transfers].transfers == std::vector<Transfer>{{0, 1, {{2, 4}}, {{0, 2}}}});
  CHECK(local.traffic.size() == 2);

  by_rank.rank = 2;
  CHECK(test::code_of([&] { summarized(plan, by_rank); }) == "E_USAGE");
}

TEST_CASE("what a plan leaves out is told") {
  const TemporaryDirectory source;
  write_checkpoint(source.path() / "model.safetensors",
                   {{"a", Dtype::kF32, {4}, {4}}, {"b", Dtype::kF32, {4}, {4}}, {"c", Dtype::kF32, {4}, {4}}});
  write_text(source.path() / "config.json", "{}");
  const auto plan = test::prepare_plan(R"(
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
unmatched: drop
tensors:
  - {match: a, shard: {0: tp}}
  - {match: b, drop: true}
  - {match: d, shard: {0: tp}, optional: true}
)",
                                       source.path());
  const pipeline::PlanHeader header = pipeline::plan_header(*plan.prepared, plan.options);
  CHECK(header.dropped == std::vector<std::string>{"b", "c"});
  CHECK(header.dropped_unmatched == 1);
  CHECK(header.unused_optional_rules == 1);
  CHECK(header.ignored_files == std::vector<std::string>{"config.json"});
}

TEST_CASE("a numbered set is known by its index, its tensors by their files") {
  const TemporaryDirectory source;
  write_checkpoint(source.path() / "model.safetensors", {{"a", Dtype::kF32, {4}, {4}}, {"b", Dtype::kF32, {4}, {4}}});
  const auto plan = test::prepare_plan(
      "{reshard: 1, source: {axes: []}, target: {axes: [], max_file_size: 16}, tensors: [{match: '*'}]}",
      source.path());
  pipeline::ListingOptions listing;
  listing.rank = 0;
  const PlanSummary summary = summarized(plan, listing);
  CHECK(summary.header.totals.bytes_written == 32);
  CHECK(summary.ranks[0] == pipeline::RankSummary{0, {}, "model.safetensors.index.json", 2, 32});
  CHECK(summary.local[1].file == "model-00002-of-00002.safetensors");
}

TEST_CASE("the padded offsets of packed sequences are told") {
  const TemporaryDirectory source;
  write_checkpoint(source.path() / "model.safetensors", {{"h", Dtype::kF32, {8}, {8}}});
  const auto plan = test::prepare_plan(R"(
reshard: 1
source: {axes: []}
target: {axes: [cp=2, tp=4]}
tensors: [{match: h, shard: {0: {axes: [cp, tp], layout: zigzag, packed: {cu_seqlens: [0, 3, 8]}}}}]
)",
                                       source.path());
  const PlanSummary summary = summarized(plan);
  // 3 and 5 elements become 4 and 8; a coordinate's stream of 6 grows by 2, so that 4 ranks cut it.
  CHECK(summary.layouts[0].padded_offsets == std::vector<pipeline::PaddedOffsets>{{0, {0, 4, 16}}});
}
