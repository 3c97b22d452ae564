#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>

#include "reshard/report/compare_report.hpp"
#include "reshard/report/inspect_report.hpp"
#include "reshard/report/plan_report.hpp"
#include "reshard/report/run_report.hpp"
#include "reshard/report/tensor_groups.hpp"
#include "reshard/report/verify_report.hpp"
#include "unit/report/fixtures.hpp"

using namespace reshard;

TEST_CASE("equal axes that cut otherwise do not read as if nothing changed") {
  using pipeline::PartsChange;
  const auto text = [](PartsChange change, std::size_t source_pieces = 0, std::size_t target_pieces = 0) {
    return report::cuts_text({{0, {{"cp", 2}}, {{"cp", 2}}, change, source_pieces, target_pieces}});
  };
  CHECK(text(PartsChange::kNone) == "dim 0 cp 2");
  CHECK(text(PartsChange::kPieces, 2, 1) == "dim 0 cp 2 in 2 pieces -> in 1 piece");
  CHECK(text(PartsChange::kLengths) == "dim 0 cp 2 in other lengths");
  CHECK(text(PartsChange::kOrder) == "dim 0 cp 2 in another order");
  CHECK(text(PartsChange::kPadding) == "dim 0 cp 2 with other padding");
}

TEST_CASE("a plan is told within 80 columns") {
  pipeline::PlanSummary plan = test::small_plan();
  plan.header.ignored_files = {"config.json", "tokenizer.json"};
  plan.header.warnings = {{"W_AXIS_IDLE", "plan.yaml", kNoTensor, "target axis 'pp' of size 2 cuts nothing"}};
  plan.copy_axes = {{"target", "", {"pp", 2}}, {"target", "expert", {"ep", 4}}};
  CHECK(report::plan_text(plan) == R"(plan 995dc9bbdf1939fa
  source     tp=2 (2 ranks), hdf5, 320 B
  target     pp=2 tp=2, expert: ep=4 (4 ranks), safetensors, 384 B
  moves      3 tensors in 9 transfers
  bytes      320 B read, 160 B between processes, 384 B written (64 B padding)
  processes  2, 1 round
  transport  mpi: direct would read 4.00 bytes for each one that the target
             needs
  memory     2 KiB of tensor bytes in a process at most, 512 MiB allowed
  estimate   250 ms where storage does 2 GB/s each way, 125 ms if all of it
             overlaps

tensors
  b           f32 [4]             on all -> pp 2   1 tensor
  layers.0.w  bf16 [8, 4]         dim 0 tp 2 -> 4  1 tensor
  layers.1.w  bf16 -> f32 [8, 4]  dim 0 tp 2 -> 4  1 tensor

renamed
  old.1.w -> layers.1.w

offsets of the target's padded sequences
  layers.0.w dim 1: 0, 8, 12
  layers.1.w dim 1: 0, 8, 12

traffic in B: source ranks down, target ranks across
     0  1 2 3
  0 64  . . .
  1  . 96 . .

target ranks
  0  pp=0 tp=0  rank-00000.safetensors  3 tensors  128 B
  1  pp=0 tp=1  rank-00001.safetensors  2 tensors   64 B

axes that only make copies
  target pp=2, target expert ep=4

ignored in the source
  config.json, tokenizer.json

warning: W_AXIS_IDLE: plan.yaml: target axis 'pp' of size 2 cuts nothing
)");
}

TEST_CASE("layers that are cut alike are one line") {
  pipeline::PlanSummary plan;
  plan.header = test::small_header();
  plan.layouts.resize(2);
  plan.layouts[0] = {0, {14336, 4096}, {7168, 4096}, {3584, 4096}, {}, {{0, {{"tp", 2}}, {{"tp", 4}}}}, {}};
  plan.layouts[1] = {1,
                     {4096, 4096},
                     {4096, 4096},
                     {1024, 2048},
                     {},
                     {{0, {}, {{"tp", 4}, {"gtp", 2}}}, {1, {{"tp", 2}}, {}}, {2, {{"x", 2}}, {{"x", 2}}}},
                     {}};
  for (int layer = 0; layer < 32; ++layer)
    for (const char* part : {"up", "gate"}) {
      const std::string name = fmt::format("model.layers.{}.mlp.{}_proj.weight", layer, part);
      plan.tensors.push_back({name, name, Dtype::kBf16, Dtype::kBf16, part[0] == 'u' ? 1U : 0U, 0});
    }
  const std::string text = report::plan_text(plan);
  const std::size_t begin = text.find("tensors\n", text.find("estimate"));
  CHECK(text.substr(begin, text.find("\n\n", begin) - begin) == R"(tensors
  model.layers.{0..31}.mlp.up_proj.weight
    bf16 [4096, 4096]   dim 0 whole -> tp 4 x gtp 2  32 tensors
                        dim 1 tp 2 -> whole
                        dim 2 x 2
  model.layers.{0..31}.mlp.gate_proj.weight
    bf16 [14336, 4096]  dim 0 tp 2 -> 4              32 tensors)");
}

TEST_CASE("many ranks are told as runs and blocks") {
  pipeline::PlanSummary plan;
  plan.header = test::small_header();
  plan.header.target.ranks = 2048;
  plan.traffic = {{0, 0, 1}, {1, 1, 6}, {1, 2047, 1}};
  for (planner::Index rank = 0; rank < 2048; ++rank)
    plan.ranks.push_back({rank, {{"tp", rank}}, fmt::format("rank-{:05}.h5", rank), 2, rank == 2047 ? 512 : 1024});
  const std::string text = report::plan_text(plan);
  CHECK(text.substr(text.find("traffic in")) == R"(traffic in B: source ranks down, target ranks across
  a row is 1 rank, a column 256 ranks, named by the first; --report json lists
  all 3 pairs
    0 256 512 768 1024 1280 1536 1792
  0 1   .   .   .    .    .    .    .
  1 6   .   .   .    .    .    .    1

target ranks
  0 to 2046  tp=0 ...  rank-00000.h5 ...  2 tensors  1 KiB each
  2047       tp=2047   rank-02047.h5      2 tensors       512 B
)");
}

TEST_CASE("many ranks that store this and that are not all told") {
  pipeline::PlanSummary plan;
  plan.header = test::small_header();
  for (planner::Index rank = 0; rank < 1024; ++rank)
    plan.ranks.push_back({rank, {{"tp", rank}}, fmt::format("rank-{:05}.h5", rank), 2, 1024 + rank % 7 * 1024});
  const std::string text = report::plan_text(plan);
  CHECK(text.substr(text.find("  15  tp=15")) ==
        "  15  tp=15  rank-00015.h5  2 tensors  2 KiB\n"
        "  ... 1024 ranks in all, from 1 KiB (rank 0) to 7 KiB (rank 6); --report json\n  lists them\n");
}

TEST_CASE("sixteen ranks a side fit a line") {
  pipeline::PlanSummary plan;
  plan.header = test::small_header();
  plan.header.source.ranks = plan.header.target.ranks = 16;
  for (planner::Index source = 0; source < 16; ++source)
    for (planner::Index target = 0; target < 16; ++target) plan.traffic.push_back({source, target, 999});
  const std::string text = report::plan_text(plan);
  std::size_t longest = 0;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    longest = std::max(longest, end - begin);
  CHECK(longest <= 80);
  CHECK(text.find("  15 999 999") != std::string::npos);
}

TEST_CASE("experts on different ranks are one line") {
  pipeline::PlanSummary plan;
  plan.header = test::small_header();
  for (int expert = 0; expert < 4; ++expert) {
    pipeline::LayoutSummary layout{1, {8, 4}, {8, 4}, {8, 4}, {}, {{std::nullopt, {{"ep", 2}}, {{"ep", 4}}}}, {}};
    layout.target_shard_shapes.assign(4, std::nullopt);
    layout.target_shard_shapes[static_cast<std::size_t>(expert)] = Shape{8, 4};
    plan.layouts.push_back(layout);
  }
  for (int layer = 0; layer < 3; ++layer)
    for (unsigned expert = 0; expert < 4; ++expert) {
      const std::string name = fmt::format("layers.{}.experts.{}.w", layer, expert);
      plan.tensors.push_back({name, "old." + name, Dtype::kBf16, Dtype::kBf16, expert, 0});
    }
  const std::string text = report::plan_text(plan);
  CHECK(text.find("  layers.{0..2}.experts.{0..3}.w  bf16 [8, 4]  on ep 2 -> 4  12 tensors\n") != std::string::npos);
  CHECK(text.find("  old.layers.{0..2}.experts.{0..3}.w -> layers.{0..2}.experts.{0..3}.w\n") != std::string::npos);
}

TEST_CASE("a tensor is drawn as both sides cut it") {
  pipeline::PlanSummary plan;
  plan.header = test::small_header();
  pipeline::LayoutSummary layout{1, {8, 6}, {4, 6}, {8, 3}, {}, {{0, {{"tp", 2}}, {}}, {1, {}, {{"tp", 2}}}}, {}};
  layout.source_shards = {{{{{0, 0, 2}, {6, 2, 2}}, {{0, 0, 6}}}, {4, 6}, {0}},
                          {{{{2, 0, 4}}, {{0, 0, 6}}}, {4, 6}, {1, 2, 3}}};
  layout.target_shards = {{{{{0, 0, 8}}, {{0, 0, 3}}}, {8, 3}, {0}}, {{{{0, 0, 8}}, {{3, 0, 3}}}, {8, 3}, {1}}};
  plan.layouts = {layout};
  plan.tensors = {{"w", "w", Dtype::kBf16, Dtype::kBf16, 0, 0}};
  plan.transfers = {{0, {{0, 0, {{0, 2}, {0, 3}}, {{0, 2}, {0, 3}}}, {1, 1, {{0, 4}, {3, 6}}, {{2, 6}, {0, 3}}}}}};
  const std::string text = report::plan_text(plan);
  const std::size_t begin = text.find("\nw\n") + 1;
  CHECK(text.substr(begin, text.find("\n\n", begin) - begin) == R"(w
  bf16 [8, 6], dim 0 tp 2 -> whole, dim 1 whole -> tp 2
  dim 0 down, dim 1 across; in the boxes, ranks
  source
          0:6
        +------+
    0:2 |  0   |
        +------+
    2:6 | 1..3 |
        +------+
    6:8 |  0   |
        +------+
  target
          0:3   3:6
        +-----+-----+
    0:8 |  0  |  1  |
        +-----+-----+
  ranks   from the source's shard  to the target's shard
  0 -> 0  [0:2, 0:3]               [0:2, 0:3]             12 B
  1 -> 1  [0:4, 3:6]               [2:6, 0:3]             24 B)");
}

TEST_CASE("large traffic is told in a unit of at most three digits") {
  pipeline::PlanSummary plan;
  plan.header = test::small_header();
  plan.header.target.ranks = 2;
  plan.traffic = {{0, 0, std::int64_t{9999} << 20}, {0, 1, 1}, {1, 1, std::int64_t{3} << 19}};
  const std::string text = report::plan_text(plan);
  const std::size_t begin = text.find("traffic");
  CHECK(text.substr(begin, text.find("\n\n", begin) - begin) ==
        R"(traffic in GiB: source ranks down, target ranks across
     0  1
  0 10 <1
  1  . <1)");
}

TEST_CASE("a rank's local layout is told instead of the whole plan") {
  pipeline::PlanSummary plan;
  plan.header = test::small_header();
  plan.local_rank = 3;
  for (int layer = 0; layer < 4; ++layer)
    plan.local.push_back({fmt::format("layers.{}.w", layer), Dtype::kBf16, {2, 4}, 16, "rank-00003.h5"});
  plan.local.push_back({"norm", Dtype::kF32, {4}, 16, "rank-00003.h5"});
  const std::string text = report::plan_text(plan);
  CHECK(text.substr(text.find("rank 3")) == R"(rank 3 stores 5 tensors, 80 B
  layers.{0..3}.w  bf16 [2, 4]  16 B each  rank-00003.h5
  norm             f32 [4]           16 B  rank-00003.h5
)");
  CHECK(text.find("traffic") == std::string::npos);
}

TEST_CASE("a run tells what was written where, how fast, and what was left") {
  pipeline::PlanHeader plan = test::small_header();
  plan.totals.bytes_written = std::int64_t{3} << 30;
  plan.dropped = {"extra"};
  plan.dropped_unmatched = 1;
  plan.unused_optional_rules = 1;
  plan.ignored_files = {"config.json", "model-2.safetensors", "tokenizer.json"};
  plan.warnings = {{"W_METADATA", "src", kNoTensor, "left out"}};
  pipeline::RunResult result;
  result.target = "/data/out";
  result.seconds = 1.5;
  result.stages = {{0.5, 320}, {0.25, 160}, {0.125, 160}, {0, 0}, {0.75, 384}, {0.0625, 0}};
  result.bytes_read = {200, 120};
  result.peak_staging_bytes = {1024, 2048};
  result.peak_rss_bytes = {1 << 20, 2 << 20};
  result.digests_checked = 12;
  result.side_files = {"tokenizer.json"};
  result.side_files_left = {"config.json"};
  CHECK(report::run_text(plan, result) == R"(3 tensors written to /data/out
  source     tp=2 (2 ranks), hdf5, 320 B
  target     pp=2 tp=2, expert: ep=4 (4 ranks), safetensors, 384 B
  wrote      3 GiB in 1.5 s, 2 GiB/s; 320 B read, 160 B between processes
  floor      125 ms where storage does 2 GB/s each way, both at once: 8 % of the
             time
  processes  2
  transport  mpi: direct would read 4.00 bytes for each one that the target
             needs
  stages     read 500 ms, pack 250 ms, exchange 125 ms, unpack 0 s, write 750
             ms, publish 62 ms of the slowest process, its threads summed
  checked    all bytes as written against those as read, in 12 pieces
  memory     2 KiB of tensor bytes in a process at most, 512 MiB allowed; 2 MiB
             resident
  copied     tokenizer.json
  not copied config.json: loaders such as from_pretrained need them
             (--copy-side-files)
  ignored    model-2.safetensors in the source
  left out   1 tensor of the source (1 that no rule matches): extra
  unused     1 rule matched nothing
)");
}

TEST_CASE("a run that continues another says how much was there, one that has nothing to do why") {
  const pipeline::PlanHeader plan = test::small_header();
  pipeline::RunResult result;
  result.target = "/data/out";
  result.stages.resize(pipeline::kStages);
  result.bytes_resumed = std::int64_t{3} << 20;
  const auto text = [&](pipeline::Start start) {
    result.start = start;
    return report::run_text(plan, result);
  };
  CHECK(text(pipeline::Start::kContinue).find(R"(
  resumed    3 MiB of them were there from an earlier run: read, checked and not
             written again
)") != std::string::npos);
  const std::string sides = R"(  source     tp=2 (2 ranks), hdf5, 320 B
  target     pp=2 tp=2, expert: ep=4 (4 ranks), safetensors, 384 B
)";
  CHECK(text(pipeline::Start::kPublish) ==
        "/data/out was put in place: an earlier run had written all of it\n" + sides);
  CHECK(text(pipeline::Start::kFinished) ==
        "/data/out is finished already, from an earlier run of this plan: nothing was done\n" + sides);
}

TEST_CASE("an inspection is a table with names folded") {
  pipeline::Inspection inspection;
  inspection.format = "safetensors";
  inspection.ranks = 8;
  inspection.axes = std::vector<std::string>{"tp=8"};
  inspection.files = "rank-{rank:05}.safetensors";
  inspection.bytes = 2048;
  for (int layer = 0; layer < 12; ++layer)
    inspection.tensors.push_back({fmt::format("layers.{}.w", layer), Dtype::kBf16, {{{4, 4}, 0, 7}}, Shape{32, 4}});
  inspection.tensors.push_back({"last", Dtype::kF32, {{{2}, 3, 6}, {{1}, 7, 7}}, std::nullopt});
  inspection.ignored_files = {"config.json"};
  inspection.warnings = {{"W_NOT_TENSOR", "f.h5", "names", "holds strings"}};
  CHECK(report::inspect_text(inspection) == R"(safetensors, 8 ranks, rank-{rank:05}.safetensors, 2 KiB in 13 tensors
  mesh       tp=8

  layers.{0..11}.w  bf16 [4, 4]                  of [32, 4]  12 tensors
  last              f32 [2] on 3 to 6, [1] on 7                1 tensor

other files
  config.json

warning: W_NOT_TENSOR: f.h5: tensor 'names': holds strings
)");
}

TEST_CASE("a verification is two lines, and one more for every problem") {
  pipeline::Verification verification;
  verification.directory = "llama-tp4";
  verification.files = 4;
  verification.tensors = 21;
  verification.bytes = 2048;
  CHECK(report::verify_text(verification) == R"(llama-tp4: every file and tensor is as the manifest says
  read       4 files, 21 tensors, 2 KiB
)");
  verification.problems = {{ErrorCode::kDigest, "rank-00001.h5", "w", "995dc9bbdf1939fa", "0000000000000001"}};
  CHECK(report::verify_text(verification) == R"(llama-tp4: 1 problem
  read       4 files, 21 tensors, 2 KiB
E_DIGEST: rank-00001.h5: tensor 'w': expected 995dc9bbdf1939fa, found 0000000000000001
)");
}

TEST_CASE("a comparison counts tensors, not the ways in which they differ") {
  pipeline::CompareResult result;
  result.a = "a";
  result.b = "b";
  result.equal = 2;
  CHECK(report::compare_text(result) == "A a, B b: 2 equal tensors, no difference\n");
  result.only_in_b = {"x"};
  result.different = {{"v", pipeline::Quality::kDtype, {}, "f32", "bf16", "a.h5", "b.h5"},
                      {"v", pipeline::Quality::kShape, {}, "[2]", "[3]", "a.h5", "b.h5"},
                      {"w", pipeline::Quality::kValue, Shape{0, 3}, "1.5", "1.25", "a.h5", "b.h5"}};
  CHECK(report::compare_text(result) == R"(A a, B b: 2 equal tensors, 2 different, 0 only in A, 1 only in B
E_DIFFERENT: tensor 'x': only in B
E_DIFFERENT: tensor 'v': dtype: A has f32 (a.h5), B has bf16 (b.h5)
E_DIFFERENT: tensor 'v': shape: A has [2] (a.h5), B has [3] (b.h5)
E_DIFFERENT: tensor 'w': value at [0, 3]: A has 1.5 (a.h5), B has 1.25 (b.h5)
)");
}
