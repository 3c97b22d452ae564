#include "reshard/pipeline/inspect.hpp"

#include <doctest/doctest.h>

#include "unit/pipeline/checkpoint_fixtures.hpp"

using namespace reshard;
using pipeline::InspectedTensor;
using pipeline::Inspection;
using test::TemporaryDirectory;
using test::write_checkpoint;

namespace {

Inspection inspected(const fs::path& path) {
  return pipeline::inspect(path, test::test_formats(), false);
}

std::vector<Issue> issues_of(const fs::path& path) {
  try {
    inspected(path);
  } catch (const Error& error) {
    return error.issues();
  }
  return {};
}

void write_ranks(const fs::path& directory, const std::vector<int>& ranks) {
  for (const int rank : ranks)
    write_checkpoint(directory / ("rank-0000" + std::to_string(rank) + ".safetensors"), {{"w", Dtype::kF32, {3}, {3}}});
}

}  // namespace

TEST_CASE("a full checkpoint is one rank") {
  const TemporaryDirectory directory;
  write_checkpoint(directory.path() / "model.safetensors",
                   {{"w", Dtype::kBf16, {4, 2}, {4, 2}}, {"s", Dtype::kF32, {}, {}}});
  write_text(directory.path() / "config.json", "{}");
  const Inspection found = inspected(directory.path());
  CHECK(found.format == "safetensors");
  CHECK(found.ranks == 1);
  CHECK(found.axes == std::nullopt);
  CHECK(found.files == "model.safetensors");
  CHECK(found.bytes == 20);
  CHECK(found.tensors == std::vector<InspectedTensor>{{"s", Dtype::kF32, {{{}, 0, 0}}, std::nullopt},
                                                      {"w", Dtype::kBf16, {{{4, 2}, 0, 0}}, std::nullopt}});
  CHECK(found.ignored_files == std::vector<std::string>{"config.json"});
  CHECK(found.warnings.empty());
  CHECK(inspected(directory.path() / "model.safetensors").files == "model.safetensors");
}

TEST_CASE("rank files are as many ranks, equal stored shapes are runs") {
  const TemporaryDirectory directory;
  write_ranks(directory.path(), {0, 1, 2});
  write_checkpoint(directory.path() / "rank-00003.safetensors",
                   {{"w", Dtype::kF16, {1}, {1}}, {"last", Dtype::kF32, {2}, {2}}});
  const Inspection found = inspected(directory.path());
  CHECK(found.ranks == 4);
  CHECK(found.files == "rank-{rank:05}.safetensors");
  CHECK(found.tensors == std::vector<InspectedTensor>{{"last", Dtype::kF32, {{{2}, 3, 3}}, std::nullopt},
                                                      {"w", Dtype::kF32, {{{3}, 0, 2}, {{1}, 3, 3}}, std::nullopt}});
  CHECK(found.warnings == std::vector<Warning>{{"W_DTYPE", "", "w", "rank 0 stores f32, rank 3 f16"}});
}

TEST_CASE("one rank file alone is a checkpoint of one rank") {
  const TemporaryDirectory directory;
  write_ranks(directory.path(), {0});
  CHECK(inspected(directory.path()).ranks == 1);
  CHECK(inspected(directory.path()).files == "rank-{rank:05}.safetensors");
}

TEST_CASE("an indexed set is one rank without a template") {
  const TemporaryDirectory directory;
  write_checkpoint(directory.path() / "model-00001-of-00002.safetensors", {{"a", Dtype::kF32, {2}, {2}}});
  write_checkpoint(directory.path() / "model-00002-of-00002.safetensors", {{"b", Dtype::kF32, {2}, {2}}});
  write_text(directory.path() / "model.safetensors.index.json",
             R"({"metadata": {"total_size": 16}, "weight_map": {"a": "model-00001-of-00002.safetensors",
                 "b": "model-00002-of-00002.safetensors"}})");
  const Inspection found = inspected(directory.path());
  CHECK(found.ranks == 1);
  CHECK(found.files == std::nullopt);
  CHECK(found.tensors.size() == 2);
  CHECK(found.bytes == 16);
}

TEST_CASE("missing rank files are named, however far the numbers go") {
  const TemporaryDirectory directory;
  write_ranks(directory.path(), {0, 2});
  CHECK(issues_of(directory.path()) ==
        std::vector<Issue>{{ErrorCode::kMissing, directory.path().string(), kNoTensor,
                            "rank-00001.safetensors is missing, though rank-00002.safetensors is there: rank numbers "
                            "have no gaps"}});
  write_checkpoint(directory.path() / "rank-9000000000000000000.safetensors", {{"w", Dtype::kF32, {3}, {3}}});
  CHECK(issues_of(directory.path()) ==
        std::vector<Issue>{{ErrorCode::kMissing, directory.path().string(), kNoTensor,
                            "rank-00001.safetensors, rank-00003.safetensors, rank-00004.safetensors, "
                            "rank-00005.safetensors, rank-00006.safetensors and 8999999999999999993 more are missing, "
                            "though rank-9000000000000000000.safetensors is there: rank numbers have no gaps"}});
}

TEST_CASE("files of two kinds are refused by name") {
  const TemporaryDirectory directory;
  write_ranks(directory.path(), {0, 1});
  write_checkpoint(directory.path() / "model.safetensors", {{"w", Dtype::kF32, {3}, {3}}});
  CHECK(issues_of(directory.path()) ==
        std::vector<Issue>{{ErrorCode::kFormat, directory.path().string(), kNoTensor,
                            "holds both model.safetensors and rank-00000.safetensors; give one file as the path, or "
                            "keep one of them"}});
}

TEST_CASE("a directory with other names says what was found and what is looked for") {
  const TemporaryDirectory directory;
  write_text(directory.path() / "weights.bin", "x");
  CHECK(issues_of(directory.path()) ==
        std::vector<Issue>{{ErrorCode::kMissing, directory.path().string(), kNoTensor,
                            "holds no checkpoint by name: expected model.safetensors, rank-00000.safetensors and so "
                            "on, or model.safetensors.index.json; found weights.bin. Give one file as the path, or "
                            "rename the files (a plan reads other names with `files`)"}});
  CHECK(test::code_of([&] { inspected(directory.path() / "nowhere"); }) == "E_MISSING");
}

TEST_CASE("a directory where a file is expected is shown as one") {
  const TemporaryDirectory directory;
  fs::create_directory(directory.path() / "model.safetensors");
  fs::create_directory(directory.path() / "rank-00000.safetensors");
  write_text(directory.path() / "config.json", "{}");
  const std::vector<Issue> issues = issues_of(directory.path());
  REQUIRE(issues.size() == 1);
  CHECK(issues.front().code == ErrorCode::kMissing);
  CHECK(issues.front().message.find("found config.json, model.safetensors/, rank-00000.safetensors/. ") !=
        std::string::npos);
}

TEST_CASE("a finished target tells its mesh, files and true shapes") {
  const TemporaryDirectory directory;
  write_checkpoint(directory.path() / "part-0.safetensors",
                   {{"w", Dtype::kF32, {2, 2}, {4, 2}}, {"l.0", Dtype::kF32, {2}, {2}}});
  write_checkpoint(directory.path() / "part-1.safetensors",
                   {{"w", Dtype::kF32, {2, 2}, {4, 2}}, {"l.0", Dtype::kF32, {3}, {3}}});
  write_text(directory.path() / "reshard.json",
             R"({"schema": "reshard.manifest", "version": 1, "tool": "reshard 0.1.0", "plan_digest": "0000000000000000",
    "format": "safetensors", "axes": ["pp=2"], "ranks": null, "views": {}, "files": "part-{pp}.safetensors",
    "placements": [{"view": null, "shard": {"0": {"axes": ["pp"]}}},
                   {"view": null, "shard": {}, "owner": {"pp": {"index": 0, "count": 2}}},
                   {"view": null, "shard": {}, "owner": {"pp": {"index": 1, "count": 2}}}],
    "tensors": {"w": {"dtype": "f32", "shape": [4, 2], "placement": 0, "digest": "0000000000000000"},
                "l.0": {"dtype": "f32", "shape": [2], "placement": 1, "digest": "0000000000000000"},
                "l.1": {"dtype": "f32", "shape": [3], "placement": 2, "digest": "0000000000000000", "stored": "l.0"}},
    "file_list": {}})");
  const Inspection found = inspected(directory.path());
  CHECK(found.axes == std::vector<std::string>{"pp=2"});
  CHECK(found.files == "part-{pp}.safetensors");
  CHECK(found.tensors == std::vector<InspectedTensor>{{"l.0", Dtype::kF32, {{{2}, 0, 0}, {{3}, 1, 1}}, std::nullopt},
                                                      {"w", Dtype::kF32, {{{2, 2}, 0, 1}}, Shape{4, 2}}});
}

TEST_CASE("a manifest that is none is refused") {
  const TemporaryDirectory directory;
  write_checkpoint(directory.path() / "model.safetensors", {{"w", Dtype::kF32, {3}, {3}}});
  write_text(directory.path() / "reshard.json", R"({"schema": "reshard.plan"})");
  CHECK(test::code_of([&] { inspected(directory.path()); }) == "E_FORMAT");
}

TEST_CASE("torch's sharded safetensors are refused for what they are") {
  const TemporaryDirectory directory;
  // The writer leaves DCP_ keys out: this header is written by hand.
  std::string header = R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"w\":{\"saved_offsets\":[2]}}"},)"
                       R"("w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  write_text(directory.path() / "shard-00002-model-00001-of-00001.safetensors", file + header + "xy");
  CHECK(test::code_of([&] { inspected(directory.path()); }) == "E_UNSUPPORTED");
}
