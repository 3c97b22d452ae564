#include "reshard/pipeline/records.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/base/json.hpp"

using namespace reshard;
using pipeline::Manifest;
using planner::SourceCatalog;
using planner::SourceTensor;
using planner::StoredRun;

template <>
struct doctest::StringMaker<std::vector<std::string>> {
  static String convert(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) out += "\n  " + text;
    return out.c_str();
  }
};

namespace {

/// A mesh of two stages by two shards: rank = pp * 2 + tp.
Manifest manifest_of(const std::vector<std::string>& placements,
                     std::map<std::string, pipeline::ManifestTensor> tensors) {
  Manifest out;
  out.path = "d/reshard.json";
  out.side = plan::read_side(parse_json(R"({"axes": ["pp=2", "tp=2"]})", "m"), plan::Role::kSource, "m");
  for (const std::string& placement : placements)
    out.placements.push_back(plan::read_placement(parse_json(placement, "m"), out.side, "m"));
  out.tensors = std::move(tensors);
  return out;
}

const std::string kRows = R"({"shard": {"0": {"axes": ["tp"]}}})";
const std::string kFirst = R"({"shard": {}, "owner": {"pp": {"index": 0, "count": 2}}})";
const std::string kSecond = R"({"shard": {}, "owner": {"pp": {"index": 1, "count": 2}}})";

SourceCatalog catalog(std::vector<SourceTensor> tensors) {
  return {4, std::move(tensors)};
}

std::vector<std::string> faults(const Manifest& manifest, SourceCatalog source) {
  try {
    pipeline::add_records(manifest, source);
  } catch (const Error& error) {
    std::vector<std::string> out;
    for (const Issue& issue : error.issues()) out.push_back(to_line(issue));
    return out;
  }
  return {};
}

}  // namespace

TEST_CASE("records tell true shapes, identities and layouts") {
  const Manifest manifest = manifest_of({kRows, kFirst, kSecond}, {{"w", {Dtype::kF32, {6, 2}, 0, 0, {}, "w"}},
                                                                   {"l.0", {Dtype::kF32, {3}, 1, 0, {}, "l.0"}},
                                                                   {"l.1", {Dtype::kF32, {3}, 2, 0, {}, "l.0"}}});
  SourceCatalog source =
      catalog({{"l.0", {{0, 3, {3}, Dtype::kF32, {}}}, {}}, {"w", {{0, 3, {3, 2}, Dtype::kF32, {}}}, {}}});
  pipeline::add_records(manifest, source);
  REQUIRE(source.recorded_layouts.size() == 3);
  CHECK(source.tensors[0].recorded == std::vector<planner::RecordedTensor>{{"l.0", 0}, {"l.1", 1}});
  CHECK(source.tensors[0].stored == std::vector<StoredRun>{{0, 3, {3}, Dtype::kF32, Shape{3}}});
  CHECK(source.tensors[1].recorded == std::vector<planner::RecordedTensor>{{"w", 2}});
  CHECK(source.tensors[1].stored == std::vector<StoredRun>{{0, 3, {3, 2}, Dtype::kF32, Shape{6, 2}}});
  CHECK(source.recorded_layouts[1].layout.present == std::vector<bool>{false, false, true, true});
  CHECK(source.recorded_layouts[1].axes == std::vector<std::string>{"pp"});
  CHECK(source.recorded_layouts[2].text == R"({"shard":{"0":{"axes":["tp"]}}})");
  CHECK(pipeline::records_text(source) ==
        "l.0 as l.0 [3] {\"owner\":{\"pp\":{\"count\":2,\"index\":0}}}\n"
        "l.1 as l.0 [3] {\"owner\":{\"pp\":{\"count\":2,\"index\":1}}}\n"
        "w as w [6, 2] {\"shard\":{\"0\":{\"axes\":[\"tp\"]}}}\n");
}

TEST_CASE("files that are not the manifest's are refused, all of them by name") {
  const Manifest manifest = manifest_of({kRows, kFirst}, {{"w", {Dtype::kF32, {6, 2}, 0, 0, {}, "w"}},
                                                          {"d", {Dtype::kBf16, {6, 2}, 0, 0, {}, "d"}},
                                                          {"gone", {Dtype::kF32, {6, 2}, 0, 0, {}, "gone"}},
                                                          {"l.0", {Dtype::kF32, {3}, 1, 0, {}, "l.0"}}});
  CHECK(faults(manifest, catalog({{"d", {{0, 3, {3, 2}, Dtype::kF32, {}}}, {}},
                                  {"extra", {{0, 3, {1}, Dtype::kF32, {}}}, {}},
                                  {"l.0", {{0, 2, {3}, Dtype::kF32, {}}}, {}},
                                  {"w", {{0, 1, {3, 2}, Dtype::kF32, {}}, {2, 3, {2, 2}, Dtype::kF32, {}}}, {}}})) ==
        std::vector<std::string>{
            "E_FORMAT: d/reshard.json: tensor 'd': is f32 in the file of rank 0, bf16 in the manifest",
            "E_FORMAT: d/reshard.json: tensor 'extra': is in the files, but not in the manifest",
            "E_FORMAT: d/reshard.json: tensor 'l.0': is in the file of rank 2, by the manifest it is not there",
            "E_SHAPE: d/reshard.json: tensor 'w': is stored as [2, 2] in the file of rank 2; by the manifest it is [3, "
            "2] of [6, 2]",
            "E_FORMAT: d/reshard.json: tensor 'gone': is in the manifest, but no file has 'gone'"});
}

TEST_CASE("a global shape that a file records is the manifest's") {
  const Manifest manifest = manifest_of({kRows}, {{"w", {Dtype::kF32, {6}, 0, 0, {}, "w"}}});
  CHECK(faults(manifest, catalog({{"w", {{0, 3, {3}, Dtype::kF32, Shape{6}}}, {}}})).empty());
  CHECK(
      faults(manifest, catalog({{"w", {{0, 3, {3}, Dtype::kF32, Shape{5}}}, {}}})) ==
      std::vector<std::string>{
          "E_SHAPE: d/reshard.json: tensor 'w': has the global shape [6] in the manifest, [5] in the file of rank 0"});
}

TEST_CASE("two tensors of one stored name live on ranks of their own") {
  const Manifest manifest = manifest_of(
      {kFirst}, {{"l.0", {Dtype::kF32, {3}, 0, 0, {}, "l.0"}}, {"l.1", {Dtype::kF32, {3}, 0, 0, {}, "l.0"}}});
  CHECK(faults(manifest, catalog({{"l.0", {{0, 1, {3}, Dtype::kF32, {}}}, {}}})) ==
        std::vector<std::string>{
            "E_FORMAT: d/reshard.json: tensor 'l.0': is not the only tensor stored as 'l.0' on rank 0"});
  // Ranks 0 and 1, ranks 1 and 3.
  const Manifest one_in_common =
      manifest_of({kFirst, R"({"shard": {}, "owner": {"tp": {"index": 1, "count": 2}}})"},
                  {{"l.0", {Dtype::kF32, {3}, 0, 0, {}, "l.0"}}, {"l.1", {Dtype::kF32, {3}, 1, 0, {}, "l.0"}}});
  CHECK(faults(one_in_common, catalog({{"l.0", {{0, 1, {3}, Dtype::kF32, {}}, {3, 3, {3}, Dtype::kF32, {}}}, {}}})) ==
        std::vector<std::string>{
            "E_FORMAT: d/reshard.json: tensor 'l.0': is not the only tensor stored as 'l.0' on rank 1"});
}

TEST_CASE("a placement that cannot cut its tensor is told with both") {
  const Manifest manifest = manifest_of({kRows}, {{"odd", {Dtype::kF32, {5, 2}, 0, 0, {}, "odd"}}});
  const std::vector<std::string> found = faults(manifest, catalog({{"odd", {{0, 3, {3, 2}, Dtype::kF32, {}}}, {}}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].starts_with(
      "E_FORMAT: d/reshard.json: tensor 'odd': has the shape [5, 2], which its placement 0 cannot cut: dim 0: "));
}

TEST_CASE("tensors of one stored name keep their own dtypes and true shapes") {
  const Manifest manifest =
      manifest_of({kFirst, R"({"shard": {"0": {"axes": ["tp"]}}, "owner": {"pp": {"index": 1, "count": 2}}})", kSecond},
                  {{"d.0", {Dtype::kF32, {3}, 0, 0, {}, "d"}},
                   {"d.1", {Dtype::kBf16, {3}, 2, 0, {}, "d"}},
                   {"l.0", {Dtype::kF32, {3}, 0, 0, {}, "l"}},
                   {"l.1", {Dtype::kF32, {6}, 1, 0, {}, "l"}}});
  const SourceTensor d = {"d", {{0, 1, {3}, Dtype::kF32, {}}, {2, 3, {3}, Dtype::kBf16, {}}}, {}};
  SourceCatalog source = catalog({d, {"l", {{0, 3, {3}, Dtype::kF32, {}}}, {}}});
  pipeline::add_records(manifest, source);
  CHECK(source.tensors[0].stored ==
        std::vector<StoredRun>{{0, 1, {3}, Dtype::kF32, Shape{3}}, {2, 3, {3}, Dtype::kBf16, Shape{3}}});
  CHECK(source.tensors[1].stored ==
        std::vector<StoredRun>{{0, 1, {3}, Dtype::kF32, Shape{3}}, {2, 3, {3}, Dtype::kF32, Shape{6}}});
  CHECK(
      faults(manifest,
             catalog({{"d", {{0, 3, {3}, Dtype::kF32, {}}}, {}}, {"l", {{0, 3, {3}, Dtype::kF32, Shape{3}}}, {}}})) ==
      std::vector<std::string>{
          "E_FORMAT: d/reshard.json: tensor 'd': is f32 in the file of rank 2, bf16 in the manifest",
          "E_SHAPE: d/reshard.json: tensor 'l': has the global shape [6] in the manifest, [3] in the file of rank 2"});
}

TEST_CASE("a tensor on ranks before those of the manifest is told") {
  const Manifest manifest = manifest_of({kSecond}, {{"w", {Dtype::kF32, {3}, 0, 0, {}, "w"}}});
  CHECK(faults(manifest, catalog({{"w", {{0, 3, {3}, Dtype::kF32, {}}}, {}}})) ==
        std::vector<std::string>{
            "E_FORMAT: d/reshard.json: tensor 'w': is in the file of rank 0, by the manifest it is not there"});
  CHECK(faults(manifest, catalog({{"w", {{3, 3, {3}, Dtype::kF32, {}}}, {}}})) ==
        std::vector<std::string>{
            "E_FORMAT: d/reshard.json: tensor 'w': is not in the file of rank 2, by the manifest it is there"});
}

TEST_CASE("sixteen faults are told, the others are counted; what no file could read is none") {
  const Manifest manifest = manifest_of({kRows}, {});
  for (const int count : {16, 17, 20}) {
    CAPTURE(count);
    std::vector<SourceTensor> tensors = {{"refused", {}, {}}};
    for (int i = 0; i < count; ++i)
      tensors.push_back({"t" + std::to_string(100 + i), {{0, 3, {1}, Dtype::kF32, {}}}, {}});
    const std::vector<std::string> found = faults(manifest, catalog(std::move(tensors)));
    CHECK(found.size() == (count == 16 ? 16 : 17));
    CHECK(found.front() == "E_FORMAT: d/reshard.json: tensor 't100': is in the files, but not in the manifest");
    if (count > 16)
      CHECK(found.back() == "E_FORMAT: d/reshard.json: " + std::to_string(count - 16) + " more faults of this kind");
  }
}
