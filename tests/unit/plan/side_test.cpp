#include "reshard/plan/side.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "reshard/base/json.hpp"
#include "unit/plan/support.hpp"

using namespace reshard;
using namespace reshard::plan;
using namespace reshard::test;
using layout::Axis;

namespace {

ParallelPlan with_sides(const std::string& source, const std::string& target, const PlanOptions& options = {}) {
  return read_yaml("reshard: 1\nsource: " + source + "\ntarget: " + target + "\ntensors: []\n", options);
}

std::string target_refusal(const std::string& target) {
  return refusals("reshard: 1\ntarget: " + target + "\ntensors: []\n");
}

}  // namespace

TEST_CASE("a side has its mesh, ranks, views and files") {
  const Side side = with_sides("{}",
                               "{axes: [dp=2, tp=2], ranks: [3, 2, 1, 0], views: {expert: [ep=4]}, format: hdf5,"
                               " files: \"mp_{tp}_{ep:02}/{rank}.h5\", path: out}")
                        .target;
  CHECK(side.mesh.axes() == std::vector<Axis>{{"dp", 2}, {"tp", 2}});
  CHECK(side.mesh.coordinates(1) == std::vector<layout::Index>{1, 0});
  CHECK(side.axes_given);
  REQUIRE(side.views.size() == 1);
  CHECK(side.views[0].name == "expert");
  CHECK(side.mesh_of("expert").coordinates(1) == std::vector<layout::Index>{2});
  CHECK(side.mesh_of("").axes() == side.mesh.axes());
  CHECK(side.mesh_of("other").axes() == side.mesh.axes());
  CHECK(side.axis_names() == std::vector<std::string>{"dp", "tp", "ep"});
  CHECK(side.format == "hdf5");
  CHECK(side.files == "mp_{tp}_{ep:02}/{rank}.h5");
  CHECK(side.path == "out");
}

TEST_CASE("axes left out or empty are one rank") {
  const ParallelPlan plan = with_sides("{}", "{axes: []}");
  CHECK(plan.source.mesh.size() == 1);
  CHECK_FALSE(plan.source.axes_given);
  CHECK(plan.target.mesh.size() == 1);
  CHECK(plan.target.axes_given);
  CHECK(read_yaml("{reshard: 1, target: {}, tensors: []}").source.mesh.size() == 1);
}

TEST_CASE("a full safetensors target may limit its files") {
  CHECK(with_sides("{axes: [tp=2]}", "{format: safetensors, max_file_size: 5GiB}").target.max_file_size_bytes ==
        std::int64_t{5} << 30);
  CHECK(with_sides("{axes: [tp=2]}", "{axes: [tp=1], max_file_size: 1000}").target.max_file_size_bytes == 1000);
  CHECK(target_refusal("{axes: [tp=2], max_file_size: 1GiB}") == "E_SCHEMA p:2:39");
  CHECK(target_refusal("{format: hdf5, max_file_size: 1GiB}") == "E_SCHEMA p:2:39");
  CHECK(target_refusal("{files: x.safetensors, max_file_size: 1GiB}") == "E_SCHEMA p:2:47");
  CHECK(target_refusal("{max_file_size: 1.5GiB}") == "E_SCHEMA p:2:25");
  CHECK(target_refusal("{max_file_size: 0}") == "E_SCHEMA p:2:25");
  CHECK(refusals("{reshard: 1, source: {max_file_size: 1GiB}, target: {}, tensors: []}") == "E_SCHEMA p:1:38");
  PlanOptions options;
  options.target_format = "hdf5";
  CHECK(refusals("{reshard: 1, target: {max_file_size: 1GiB}, tensors: []}", Notation::kYaml, options) ==
        "E_SCHEMA p:1:38");
}

TEST_CASE("sizes of axes are integers of 1 or more and nothing else") {
  for (const std::string size :
       {"4.0", "04", "0x4", "4e0", "yes", "-1", "0", "", " 4", "+4", "4 ", "9223372036854775808"}) {
    CAPTURE(size);
    CHECK(target_refusal("{axes: [\"tp=" + size + "\"]}") == "E_MESH_SIZE p:2:17");
  }
  CHECK(target_refusal("{axes: [tp]}") == "E_MESH_SIZE p:2:17");
  CHECK(target_refusal("{axes: [tp=1048576]}") == "read");
  CHECK(target_refusal("{axes: [tp=1048576, dp=2]}") == "E_MESH_SIZE p:2:29");
  CHECK(target_refusal("{axes: [tp=3, dp=349526]}") == "E_MESH_SIZE p:2:23");
}

TEST_CASE("what is wrong with a mesh is said once and in its place") {
  CHECK(target_refusal("{axes: [TP=2]}") == "E_SCHEMA p:2:17");
  CHECK(target_refusal("{axes: [\"tp = 2\"]}") == "E_SCHEMA p:2:17");
  CHECK(target_refusal("{axes: [tp: 2]}") == "E_SCHEMA p:2:17");
  CHECK(target_refusal("{axes: tp=2}") == "E_SCHEMA p:2:16");
  CHECK(target_refusal("{axes: }") == "E_SCHEMA p:2:10");
  CHECK(target_refusal("{axes: [tp=2, dp=2, tp=4]}") == "E_AXIS_DUP p:2:29");
  CHECK(target_refusal("{axes: [tp=2], ranks: [0, 0]}") == "E_RANKS p:2:31");
  CHECK(target_refusal("{axes: [tp=2], ranks: [0, 2]}") == "E_RANKS p:2:31");
  CHECK(target_refusal("{axes: [tp=2], ranks: [0]}") == "E_RANKS p:2:31");
  CHECK(target_refusal("{axes: [tp=2], ranks: []}") == "E_RANKS p:2:31");
  CHECK(target_refusal("{axes: [tp=2], ranks: [1, -1]}") == "E_RANKS p:2:35");
  CHECK(target_refusal("{axes: [tp=2], ranks: [1, \"0\"]}") == "E_SCHEMA p:2:35");
  CHECK(target_refusal("{axes: [tp=x], ranks: [0, 1]}") == "E_MESH_SIZE p:2:17");
  CHECK(target_refusal("{axes: [tp=2], views: {e: [ep=3]}}") == "E_MESH_WORLD p:2:35");
  CHECK(target_refusal("{axes: [tp=2], views: {e: [ep=2, ep=1]}}") == "E_AXIS_DUP p:2:42");
  CHECK(target_refusal("{axes: [tp=2], views: [ep=2]}") == "E_SCHEMA p:2:31");
  CHECK(target_refusal("{views: {e: [ep=2]}}") == "E_MESH_WORLD p:2:21");
}

TEST_CASE("an axis that could not be read is not missed where a rule or a file name uses it") {
  const auto used = [](const std::string& target) {
    return refusals(
        "reshard: 1\ntarget: " + target +
        "\ntensors: [{match: a, shard: {0: tp}}, {match: b, place: {tp: shard(0)}}, {match: c, owner: {tp: '0/8'}},"
        " {match: d, view: v, shard: {0: tp}}]\n");
  };
  CHECK(used("{axes: [TP=2], views: {v: [tp=1]}}") == "E_SCHEMA p:2:17");
  CHECK(used("{axes: [TP=2], files: \"{tp}.h5\", views: {v: [tp=1]}}") == "E_SCHEMA p:2:17");
  CHECK(used("{axes: [tp=2], views: [tp=2]}") == "E_SCHEMA p:2:31");
  CHECK(used("{axes: [tp=2], views: {v: [TP=2]}}") == "E_SCHEMA p:2:36");
  CHECK(used("{axes: [], views: {v: [tp=1]}}") ==
        "E_AXIS_UNKNOWN p:3:33, E_AXIS_UNKNOWN p:3:58, E_AXIS_UNKNOWN p:3:93");
}

TEST_CASE("a file template names fields of its own side and stays inside its directory") {
  CHECK(target_refusal("{axes: [tp=2], files: \"r{tp}.h5\"}") == "read");
  CHECK(target_refusal("{axes: [tp=2], files: \"r{ep}.h5\"}") == "E_SCHEMA p:2:31");
  CHECK(target_refusal("{axes: [tp=2], files: \"/r{tp}.h5\"}") == "E_SCHEMA p:2:31");
  CHECK(target_refusal("{axes: [tp=2], files: \"../r{tp}.h5\"}") == "E_SCHEMA p:2:31");
  CHECK(target_refusal("{axes: [tp=2], files: 3}") == "E_SCHEMA p:2:31");
  CHECK(target_refusal("{files: reshard.json}") == "E_SCHEMA p:2:17");
  CHECK(target_refusal("{files: model.safetensors.index.json}") == "E_SCHEMA p:2:17");
  CHECK(target_refusal("{format: dcp}") == "E_SCHEMA p:2:18");
  CHECK(target_refusal("{axis: [tp=2]}") == "E_SCHEMA p:2:10");
  CHECK(target_refusal("tp=2") == "E_SCHEMA p:2:9");
}

TEST_CASE("a manifest's mesh and views stand in where the source leaves its axes out") {
  PlanOptions options;
  options.manifest_source =
      read_side(parse_json(R"({"axes": ["dp=2", "tp=2"], "ranks": [1, 0, 2, 3], "views": {"expert": ["ep=4"]}})", "m"),
                Role::kSource, "m");
  for (const std::string source : {"source: {format: hdf5}\n", ""}) {
    const ParallelPlan plan =
        read_yaml("reshard: 1\n" + source + "target: {}\ntensors: [{match: w, shard: {0: [dp, tp]}}]\n", options);
    CHECK_FALSE(plan.source.axes_given);
    CHECK(plan.source.mesh.axes() == std::vector<Axis>{{"dp", 2}, {"tp", 2}});
    CHECK(plan.source.mesh.ranks() == std::vector<layout::Index>{1, 0, 2, 3});
    CHECK(plan.source.has_view("expert"));
    CHECK(plan.rules[0].source.shard[0].cut.levels[0].axis_size == 2);
    CHECK(plan.rules[0].target.shard[0].cut.levels[0].axis_size == 1);
  }
  const ParallelPlan plan = with_sides("{axes: [tp=8]}", "{}", options);
  CHECK(plan.source.mesh.axes() == std::vector<Axis>{{"tp", 8}});
  CHECK_FALSE(plan.source.has_view("expert"));
}

TEST_CASE("ranks and views of a manifest stand in beside axes of the source's own") {
  PlanOptions options;
  options.manifest_source =
      read_side(parse_json(R"({"axes": ["dp=2", "tp=2"], "ranks": [1, 0, 2, 3], "views": {"expert": ["ep=4"]}})", "m"),
                Role::kSource, "m");
  const ParallelPlan plan = with_sides("{axes: [pp=1, dp=2, tp=2]}", "{}", options);
  CHECK(plan.source.axes_given);
  CHECK(plan.source.mesh.axes() == std::vector<Axis>{{"pp", 1}, {"dp", 2}, {"tp", 2}});
  CHECK(plan.source.mesh.ranks() == std::vector<layout::Index>{1, 0, 2, 3});
  CHECK(plan.source.has_view("expert"));
}

TEST_CASE("the path of a source is found before the plan is read") {
  const auto path = [](const std::string& text) { return read_path(Role::kSource, text, Notation::kYaml, "p"); };
  CHECK(path("source: {path: \"a/${n}\"}\nvars: {n: 3}\n") == "a/3");
  CHECK(path("source: {axes: [tp=2]}\n") == std::nullopt);
  CHECK(path("source: [}") == std::nullopt);
}
