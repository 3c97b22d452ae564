#include "reshard/pipeline/manifest_reader.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/error.hpp"
#include "unit/pipeline/checkpoint_fixtures.hpp"

using namespace reshard;
using pipeline::Manifest;
using test::TemporaryDirectory;

namespace {

constexpr std::string_view kManifest = R"({"schema": "reshard.manifest", "version": 1, "tool": "reshard 0.1.0",
 "plan_digest": "995dc9bbdf1939fa", "format": "hdf5", "axes": ["pp=2", "tp=2"], "ranks": [1, 0, 2, 3],
 "views": {"expert": ["ep=4"]}, "files": "r{rank}.h5",
 "placements": [{"view": null, "shard": {"0": {"axes": ["tp"], "unit": 2}}, "owner": {"pp": {"index": 1, "count": 2}}},
                {"view": "expert", "shard": {}}],
 "tensors": {"w.3": {"dtype": "bf16", "shape": [8, 4], "placement": 0, "digest": "00000000000000ff",
                     "source_digest": "00000000000000fe", "stored": "w.0"},
             "s": {"dtype": "f32", "shape": [], "placement": 1, "digest": "0000000000000001"}},
 "file_list": {"r0.h5": {"bytes": 100, "digest": "0000000000000002"}}})";

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out(text);
  out.replace(out.find(from), from.size(), to);
  return out;
}

/// "read", or the first issue's code and message.
std::string outcome(const std::string& text) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "reshard.json";
  write_text(path, text);
  try {
    pipeline::read_manifest(path);
  } catch (const Error& error) {
    const Issue& issue = error.issues().front();
    CHECK(error.exit() == Exit::kCheckpoint);
    CHECK(issue.where.starts_with(path.string()));
    return std::string(code_name(issue.code)) + " " + issue.message;
  }
  return "read";
}

std::string outcome_with(std::string_view from, std::string_view to) {
  return outcome(replaced(kManifest, from, to));
}

}  // namespace

TEST_CASE("all that a manifest says is read") {
  const TemporaryDirectory directory;
  write_text(directory.path() / "reshard.json", kManifest);
  const std::optional<Manifest> manifest = pipeline::find_manifest(directory.path());
  REQUIRE(manifest);
  CHECK(manifest->tool == "reshard 0.1.0");
  CHECK(manifest->plan_digest == "995dc9bbdf1939fa");
  CHECK(manifest->side.format == "hdf5");
  CHECK(manifest->side.files == "r{rank}.h5");
  CHECK(manifest->side.mesh.axes() == std::vector<layout::Axis>{{"pp", 2}, {"tp", 2}});
  CHECK(manifest->side.mesh.ranks() == std::vector<layout::Index>{1, 0, 2, 3});
  CHECK(manifest->side.mesh_of("expert").size() == 4);
  REQUIRE(manifest->placements.size() == 2);
  CHECK(manifest->placements[0].shard[0].cut.levels[0].unit == 2);
  CHECK(manifest->placements[0].owners[0].indices == std::vector<layout::Index>{1});
  CHECK(manifest->placements[1].view == "expert");
  const pipeline::ManifestTensor& w = manifest->tensors.at("w.3");
  CHECK(w.dtype == Dtype::kBf16);
  CHECK(w.shape == Shape{8, 4});
  CHECK(w.placement == 0);
  CHECK(w.digest == 255);
  CHECK(w.source_digest == 254);
  CHECK(w.stored == "w.0");
  CHECK(manifest->tensors.at("s").stored == "s");
  CHECK(manifest->tensors.at("s").source_digest == std::nullopt);
  CHECK(manifest->file_list == std::map<std::string, pipeline::ManifestFile>{{"r0.h5", {100, 2}}});
}

TEST_CASE("what is no directory with a manifest has none") {
  const TemporaryDirectory directory;
  CHECK(pipeline::find_manifest(directory.path()) == std::nullopt);
  CHECK(pipeline::find_manifest(directory.path() / "nowhere") == std::nullopt);
  write_text(directory.path() / "file", "x");
  CHECK(pipeline::find_manifest(directory.path() / "file") == std::nullopt);
}

TEST_CASE("a numbered set has no template and one rank") {
  const std::string set =
      replaced(replaced(kManifest, R"("files": "r{rank}.h5")", R"("files": null)"), "hdf5", "safetensors");
  CHECK(outcome(set) == "E_FORMAT 'files' is null, as for a numbered set, which is safetensors of one rank");
  const std::string whole =
      R"({"schema": "reshard.manifest", "version": 1, "tool": "t", "plan_digest": "0000000000000000",
    "format": "safetensors", "axes": [], "ranks": null, "views": {}, "files": null, "placements": [], "tensors": {}, "file_list": {}})";
  CHECK(outcome(whole) == "read");
  CHECK(outcome(replaced(whole, "safetensors", "hdf5")) ==
        "E_FORMAT 'files' is null, as for a numbered set, which is safetensors of one rank");
}

TEST_CASE("every departure from the schema is refused by name") {
  CHECK(outcome(std::string(kManifest)) == "read");
  CHECK(outcome("").starts_with("E_FORMAT"));
  CHECK(outcome("[]").starts_with("E_FORMAT is no manifest"));
  CHECK(outcome_with("reshard.manifest", "reshard.plan").starts_with("E_FORMAT is no manifest"));
  CHECK(outcome_with(R"("version": 1)", R"("version": 2)") == "E_FORMAT has version 2, this tool reads version 1");
  CHECK(outcome_with(R"("tool")", R"("tools")") == "E_FORMAT 'tools' is no key of a manifest of version 1");
  CHECK(outcome_with(R"("version": 1,)", R"("version": 1, "version": 1,)").starts_with("E_FORMAT"));
  CHECK(outcome_with("995dc9bbdf1939fa", "995DC9bbdf1939fa") ==
        "E_FORMAT 'plan_digest' is '995DC9bbdf1939fa', expected 16 lower-case hex digits");
  CHECK(outcome_with("00000000000000ff", "ff") == "E_FORMAT 'digest' is 'ff', expected 16 lower-case hex digits");
  for (const std::string digest : {"995dc9bbdf1939fA", "995dc9bbdf1939Fa", "0995dc9bbdf1939fa", "995dc9bbdf1939fg"})
    CHECK(outcome_with("995dc9bbdf1939fa", digest) ==
          "E_FORMAT 'plan_digest' is '" + digest + "', expected 16 lower-case hex digits");
  CHECK(outcome_with(R"("axes": ["pp=2", "tp=2"])", R"("axes": null)") ==
        "E_FORMAT 'axes': found null, expected what a plan says there");
  for (const std::string file : {"", "/r0.h5", "a/../r0.h5"})
    CHECK(outcome_with(R"("r0.h5": {)", "\"" + file + "\": {") ==
          "E_FORMAT '" + file + "' in 'file_list' is no file below the directory");
  CHECK(outcome_with(R"("tp=2"])", R"("tp"])").starts_with("E_FORMAT"));
  CHECK(outcome_with("[1, 0, 2, 3]", "[1, 1, 2, 3]").starts_with("E_FORMAT"));
  CHECK(outcome_with(R"(["ep=4"])", R"(["ep=3"])").starts_with("E_FORMAT"));
  CHECK(outcome_with("r{rank}.h5", "../r{rank}.h5").starts_with("E_FORMAT"));
  CHECK(outcome_with(R"(["tp"], "unit")", R"(["gtp"], "unit")").starts_with("E_FORMAT"));
  CHECK(outcome_with(R"("unit": 2)", R"("units": 2)").starts_with("E_FORMAT"));
  CHECK(outcome_with(R"("index": 1, "count")", R"("index": 2, "count")").starts_with("E_FORMAT"));
  CHECK(outcome_with("bf16", "f12") == "E_FORMAT 'f12' is no dtype");
  CHECK(outcome_with("[8, 4]", "[8, -4]") == "E_FORMAT 'shape': found integer, expected integers of 0 or more");
  CHECK(outcome_with("[8, 4]", "8") == "E_FORMAT 'shape': found integer, expected a list of integers");
  CHECK(outcome_with(R"("placement": 0)", R"("placement": 2)") == "E_FORMAT has placement 2 of 2");
  CHECK(outcome_with(R"("dtype": "f32", )", "") == "E_FORMAT has no 'dtype'");
  CHECK(outcome_with(R"("stored": "w.0")", R"("stored": 0)") == "E_FORMAT 'stored': found integer, expected a string");
  CHECK(outcome_with(R"("bytes": 100)", R"("bytes": "100")") ==
        "E_FORMAT 'bytes': found string, expected an integer of 0 or more");
  CHECK(outcome_with(R"("r0.h5": {)", R"("../r0.h5": {)") ==
        "E_FORMAT '../r0.h5' in 'file_list' is no file below the directory");
}
