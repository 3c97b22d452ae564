#include <doctest/doctest.h>

#include "reshard/base/error.hpp"
#include "reshard/report/compare_report.hpp"
#include "reshard/report/error_report.hpp"
#include "reshard/report/inspect_report.hpp"
#include "reshard/report/plan_report.hpp"
#include "reshard/report/run_report.hpp"
#include "reshard/report/verify_report.hpp"
#include "unit/report/fixtures.hpp"

using namespace reshard;

TEST_CASE("a plan is one document with a line for each entry of its lists") {
  CHECK(report::plan_json(test::small_plan()) == R"({
 "schema": "reshard.plan",
 "version": 1,
 "plan_digest": "995dc9bbdf1939fa",
 "source": {"axes":["tp=2"],"ranks":2,"format":"hdf5","bytes":320},
 "target": {"axes":["pp=2","tp=2"],"ranks":4,"format":"safetensors","bytes":384},
 "processes": 2,
 "transport": {"name":"mpi","why":"direct would read 4.00 bytes for each one that the target needs"},
 "totals": {"tensors":3,"transfers":9,"bytes_read":320,"bytes_exchanged":160,"bytes_written":384,"padding_bytes":64,"rounds":1},
 "estimate": {"seconds":0.25,"floor_seconds":0.125},
 "memory": {"bound_bytes":536870912,"peak_staging_bytes":[1024,2048]},
 "traffic": [
  {"source_rank":0,"target_rank":0,"bytes":64},
  {"source_rank":1,"target_rank":1,"bytes":96}
 ],
 "ranks": [
  {"rank":0,"coordinates":{"pp":0,"tp":0},"file":"rank-00000.safetensors","tensors":3,"bytes":128},
  {"rank":1,"coordinates":{"pp":0,"tp":1},"file":"rank-00001.safetensors","tensors":2,"bytes":64}
 ],
 "tensors": [
  {"name":"b","dtype":"f32","shape":[4],"rule":null,"source_shard_shape":[4],"target_shard_shape":[4],"target_shard_shapes":[[4],null],"transfers":[{"source_rank":0,"target_rank":0,"source_box":[[0,4]],"target_box":[[0,4]]}]},
  {"name":"layers.0.w","dtype":"bf16","shape":[8,4],"rule":1,"source_shard_shape":[4,4],"target_shard_shape":[2,4],"padded_offsets":{"1":[0,8,12]},"transfers":[{"source_rank":0,"target_rank":1,"source_box":[[2,4],[0,4]],"target_box":[[0,2],[0,4]]},{"source_rank":1,"target_rank":2,"source_box":[[0,2],[0,4]],"target_box":[[0,2],[0,4]]}]},
  {"name":"layers.1.w","source_name":"old.1.w","dtype":"f32","source_dtype":"bf16","shape":[8,4],"rule":1,"source_shard_shape":[4,4],"target_shard_shape":[2,4],"padded_offsets":{"1":[0,8,12]},"same_as":"layers.0.w"}
 ],
 "warnings": [],
 "ignored_files": []
}
)");
}

TEST_CASE("a plan says what one rank stores, what was left out and what to look at") {
  pipeline::PlanSummary plan;
  plan.header = test::small_header();
  plan.header.dropped = {"a", "b"};
  plan.header.dropped_unmatched = 1;
  plan.header.unused_optional_rules = 2;
  plan.header.ignored_files = {"config.json"};
  plan.header.warnings = {{"W_FALLBACK", "tensors[1]", "w", "dim 0 is whole on every rank"}};
  plan.local_rank = 1;
  plan.local = {{"w\xff", Dtype::kBf16, {2, 4}, 16, "rank-00001.safetensors"}};
  const std::string json = report::plan_json(plan);
  CHECK(json.substr(json.find(" \"traffic\"")) == R"( "traffic": [],
 "ranks": [],
 "tensors": [],
 "local": [
  {"name":"w)"
                                                  "\xef\xbf\xbd"
                                                  R"(","shape":[2,4],"bytes":16,"file":"rank-00001.safetensors"}
 ],
 "warnings": [
  {"code":"W_FALLBACK","where":"tensors[1]","tensor":"w","message":"dim 0 is whole on every rank"}
 ],
 "ignored_files": ["config.json"],
 "dropped": ["a","b"],
 "dropped_unmatched": 1,
 "unused_optional_rules": 2
}
)");
}

TEST_CASE("a scalar moves as a box without dims") {
  pipeline::PlanSummary plan;
  plan.layouts.resize(1);
  plan.tensors = {{"s", "s", Dtype::kF32, Dtype::kF32, 0, 0}};
  plan.transfers = {{0, {{0, 0, {}, {}}}}};
  CHECK(report::plan_json(plan).find(
            R"("transfers":[{"source_rank":0,"target_rank":0,"source_box":[],"target_box":[]}])") != std::string::npos);
}

TEST_CASE("a run is the plan's header and what was measured") {
  pipeline::RunResult result;
  result.target = "/data/out";
  result.seconds = 1.5;
  result.stages = {{0.5, 320}, {0.25, 160}, {0.125, 160}, {0, 0}, {0.75, 384}, {0.0625, 0}};
  result.bytes_read = {200, 120};
  result.peak_staging_bytes = {1000, 2000};
  result.peak_rss_bytes = {40000, 50000};
  result.digests_checked = 12;
  result.side_files_left = {"config.json"};
  CHECK(report::run_json(test::small_header(), result) == R"({
 "schema": "reshard.run",
 "version": 1,
 "plan_digest": "995dc9bbdf1939fa",
 "source": {"axes":["tp=2"],"ranks":2,"format":"hdf5","bytes":320},
 "target": {"axes":["pp=2","tp=2"],"ranks":4,"format":"safetensors","bytes":384,"path":"/data/out"},
 "processes": 2,
 "transport": {"name":"mpi","why":"direct would read 4.00 bytes for each one that the target needs"},
 "totals": {"tensors":3,"transfers":9,"bytes_read":320,"bytes_exchanged":160,"bytes_written":384,"padding_bytes":64,"rounds":1},
 "estimate": {"seconds":0.25,"floor_seconds":0.125},
 "memory": {"bound_bytes":536870912,"peak_staging_bytes":[1024,2048]},
 "seconds": 1.5,
 "stages": {"read":{"seconds":0.5,"bytes":320},"pack":{"seconds":0.25,"bytes":160},"exchange":{"seconds":0.125,"bytes":160},"unpack":{"seconds":0.0,"bytes":0},"write":{"seconds":0.75,"bytes":384},"publish":{"seconds":0.0625,"bytes":0}},
 "bytes_read": [200,120],
 "peak_staging_bytes": [1000,2000],
 "peak_rss_bytes": [40000,50000],
 "bytes_resumed": 0,
 "digests_checked": 12,
 "side_files": [],
 "side_files_left": ["config.json"],
 "warnings": [],
 "ignored_files": []
}
)");
}

TEST_CASE("an inspection lists runs of equal stored shapes and what the checkpoint records") {
  pipeline::Inspection inspection;
  inspection.format = "safetensors";
  inspection.ranks = 8;
  inspection.axes = std::vector<std::string>{"tp=8"};
  inspection.files = "rank-{rank:05}.safetensors";
  inspection.bytes = 264;
  inspection.tensors = {{"s", Dtype::kF32, {{{}, 0, 0}}, std::nullopt},
                        {"w", Dtype::kBf16, {{{4, 4}, 0, 6}, {{2, 4}, 7, 7}}, Shape{30, 4}}};
  inspection.ignored_files = {"config.json"};
  CHECK(report::inspect_json(inspection) == R"({
 "schema": "reshard.inspect",
 "version": 1,
 "format": "safetensors",
 "ranks": 8,
 "axes": ["tp=8"],
 "files": "rank-{rank:05}.safetensors",
 "bytes": 264,
 "tensors": [
  {"name":"s","dtype":"f32","stored":[[[],[0,0]]],"global_shape":null},
  {"name":"w","dtype":"bf16","stored":[[[4,4],[0,6]],[[2,4],[7,7]]],"global_shape":[30,4]}
 ],
 "warnings": []
}
)");
}

TEST_CASE("an indexed set has neither axes nor a template") {
  pipeline::Inspection inspection;
  inspection.format = "safetensors";
  CHECK(report::inspect_json(inspection) == R"({
 "schema": "reshard.inspect",
 "version": 1,
 "format": "safetensors",
 "ranks": 1,
 "axes": null,
 "files": null,
 "bytes": 0,
 "tensors": [],
 "warnings": []
}
)");
}

TEST_CASE("an error lists every issue") {
  const Error error(
      {{ErrorCode::kIndivisible, "tensors[3]", "w\"", "dim 0"}, {ErrorCode::kMissing, "x", kNoTensor, "gone"}});
  CHECK(report::error_json(error) == R"({
 "schema": "reshard.error",
 "version": 1,
 "errors": [
  {"code":"E_INDIVISIBLE","where":"tensors[3]","tensor":"w\"","message":"dim 0"},
  {"code":"E_MISSING","where":"x","tensor":"","message":"gone"}
 ]
}
)");
  CHECK(report::error_text(error) == "E_INDIVISIBLE: tensors[3]: tensor 'w\"': dim 0\nE_MISSING: x: gone\n");
}

TEST_CASE("a verification lists every problem") {
  pipeline::Verification verification;
  verification.files = 2;
  verification.tensors = 1;
  verification.bytes = 1536;
  verification.problems = {{ErrorCode::kDigest, "rank-00001.h5", "w", "995dc9bbdf1939fa", "0000000000000001"},
                           {ErrorCode::kMissing, "rank-00002.h5", kNoTensor, "80 bytes", "no file"}};
  CHECK(report::verify_json(verification) == R"({
 "schema": "reshard.verify",
 "version": 1,
 "files": 2,
 "tensors": 1,
 "bytes": 1536,
 "problems": [
  {"code":"E_DIGEST","file":"rank-00001.h5","tensor":"w","expected":"995dc9bbdf1939fa","found":"0000000000000001"},
  {"code":"E_MISSING","file":"rank-00002.h5","tensor":"","expected":"80 bytes","found":"no file"}
 ]
}
)");
}

TEST_CASE("a comparison lists what only one side has and what differs") {
  pipeline::CompareResult result;
  result.equal = 3;
  result.only_in_a = {"x"};
  result.different = {{"v", pipeline::Quality::kDtype, {}, "f32", "bf16", "a.h5", "b.h5"},
                      {"w", pipeline::Quality::kValue, Shape{0, 3}, "1.5", "1.25", "a.h5", "b.h5"}};
  CHECK(report::compare_json(result) == R"({
 "schema": "reshard.compare",
 "version": 1,
 "equal": 3,
 "only_in_a": ["x"],
 "only_in_b": [],
 "different": [
  {"tensor":"v","what":"dtype","at":null,"a":"f32","b":"bf16","file_a":"a.h5","file_b":"b.h5"},
  {"tensor":"w","what":"value","at":[0,3],"a":"1.5","b":"1.25","file_a":"a.h5","file_b":"b.h5"}
 ]
}
)");
}
