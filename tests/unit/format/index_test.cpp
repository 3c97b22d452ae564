#include "reshard/format/safetensors/index.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "unit/format/fixtures.hpp"

using namespace reshard;
using namespace reshard::format;
using namespace reshard::format::safetensors;

namespace {

FileCatalog catalog_of(std::initializer_list<std::pair<const char*, Shape>> tensors) {
  FileCatalog catalog;
  for (const auto& [name, shape] : tensors) {
    StoredTensor& tensor = catalog.tensors.emplace_back();
    tensor.name = name;
    tensor.dtype = Dtype::kF32;
    tensor.shape = shape;
  }
  return catalog;
}

Index read(const TemporaryDirectory& dir, std::string_view text) {
  write_bytes(dir / "model.safetensors.index.json", text);
  return read_index(dir / "model.safetensors.index.json");
}

}  // namespace

TEST_CASE("index: it is written with sorted keys and read back") {
  const Index index{{{"b", "model-00002-of-00002.safetensors"}, {"a\"", "model-00001-of-00002.safetensors"}}, 65, 24};
  CHECK(to_json(index) ==
        "{\n"
        "  \"metadata\": {\n"
        "    \"total_parameters\": 24,\n"
        "    \"total_size\": 65\n"
        "  },\n"
        "  \"weight_map\": {\n"
        "    \"a\\\"\": \"model-00001-of-00002.safetensors\",\n"
        "    \"b\": \"model-00002-of-00002.safetensors\"\n"
        "  }\n"
        "}\n");
  const TemporaryDirectory dir;
  const Index found = read(dir, to_json(index));
  CHECK(found.weight_map == index.weight_map);
  CHECK(found.total_size == 65);
  CHECK(found.total_parameters == 24);
  CHECK(to_json(Index{}) == "{\n  \"metadata\": {},\n  \"weight_map\": {}\n}\n");
}

TEST_CASE("index: other keys of metadata and of the top level mean nothing") {
  const TemporaryDirectory dir;
  const Index index = read(dir, R"({"metadata": {"total_size": 1.5, "alias": {"x": ["y"]}}, "more": [{"weight_map": 3}],
                                    "weight_map": {"a": "f"}})");
  CHECK(index.weight_map == std::map<std::string, std::string>{{"a", "f"}});
  CHECK(!index.total_size);
}

TEST_CASE("index: a key means something in its own place alone") {
  const TemporaryDirectory dir;
  const Index index = read(dir, R"({"weight_map": {"a": "f"},
                                    "metadata": {"metadata": 3, "weight_map": {"b": "g"}, "alias": {"total_size": 7}},
                                    "total_size": 5, "total_parameters": 6, "more": {"total_size": 8}})");
  CHECK(index.weight_map == std::map<std::string, std::string>{{"a", "f"}});
  CHECK(!index.total_size);
  CHECK(!index.total_parameters);
}

TEST_CASE("index: a file name that is no bare name is refused") {
  const TemporaryDirectory dir;
  for (const char* const file : {"../x", "/etc/passwd", "a/b", "a\\\\b", "C:x", "C:", "..", ".", "", "a\\u0000b"}) {
    CAPTURE(file);
    const Issue issue = issue_of([&] { read(dir, R"({"weight_map": {"the.tensor": ")" + std::string(file) + "\"}}"); });
    CHECK(issue.code == ErrorCode::kFormat);
    CHECK(issue.tensor == "the.tensor");
    CHECK(issue.where == (dir / "model.safetensors.index.json").string());
  }
}

TEST_CASE("index: text that is no index is refused") {
  const TemporaryDirectory dir;
  for (const char* const text : {"", "{", "[]", "3", "{}", R"({"weight_map": []})", R"({"weight_map": {"a": 3}})",
                                 R"({"weight_map": {"a": ["f"]}})", R"({"weight_map": {"a": {"b": "f"}}})",
                                 R"({"weight_map": {"a": "f", "a": "g"}})", R"({"metadata": 3, "weight_map": {}})"}) {
    CAPTURE(text);
    CHECK(issue_of([&] { read(dir, text); }).code == ErrorCode::kFormat);
  }
  const auto message = [&](const char* text) { return issue_of([&] { read(dir, text); }).message; };
  CHECK(message("[]") == "is a list, expected an object");
  CHECK(message("3") == "is the number 3, expected an object");
  CHECK(message(R"({"weight_map": []})") == "weight_map is a list, expected an object");
  CHECK(message(R"({"metadata": {"total_size": 3}})") == "has no weight_map");
}

TEST_CASE("index: files that are missing or not regular are named with their tensors, all at once") {
  const TemporaryDirectory dir;
  fs::create_directory(dir / "folder");
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("nowhere", dir / "dangling");
  write_bytes(dir / "blob", "x");
  fs::create_symlink("blob", dir / "link");
  const Index index{
      {{"a", "gone"}, {"b", "gone"}, {"c", "folder"}, {"d", "fifo"}, {"e", "dangling"}, {"f", "link"}}, {}, {}};
  const std::vector<Issue> issues = issues_of([&] { check_files(dir.path(), index); });
  REQUIRE(issues.size() == 4);
  CHECK(issues[0].where == (dir / "dangling").string());
  CHECK(issues[0].code == ErrorCode::kMissing);
  CHECK(issues[1].where == (dir / "fifo").string());
  CHECK(issues[1].code == ErrorCode::kFormat);
  CHECK(issues[2].where == (dir / "folder").string());
  CHECK(issues[3].where == (dir / "gone").string());
  CHECK(issues[3].message.find("'a', 'b'") != std::string::npos);
  const auto ending = [&](const Index& several) {
    const std::string message = issue_of([&] { check_files(dir.path(), several); }).message;
    return message.substr(message.find(';'));
  };
  CHECK(ending({{{"a", "gone"}, {"b", "gone"}, {"c", "gone"}}, {}, {}}) ==
        "; model.safetensors.index.json maps 'a', 'b', 'c' to it");
  CHECK(ending({{{"a", "gone"}, {"b", "gone"}, {"c", "gone"}, {"d", "gone"}, {"e", "gone"}}, {}, {}}) ==
        "; model.safetensors.index.json maps 'a', 'b', 'c' and 2 more to it");
}

TEST_CASE("index: tensors must be in exactly the files they are mapped to") {
  const Index index{{{"a", "one"}, {"b", "two"}, {"c", "two"}}, 99, {}};
  const std::vector<Issue> issues = issues_of([&] {
    check_tensors("dir/index", index,
                  {{"one", catalog_of({{"a", {1}}, {"b", {1}}, {"x", {1}}})}, {"two", catalog_of({{"b", {1}}})}});
  });
  REQUIRE(issues.size() == 3);
  CHECK(to_line(issues[0]) ==
        "E_FORMAT: dir/one: tensor 'b': is in this file too, model.safetensors.index.json maps it to two");
  CHECK(to_line(issues[1]) == "E_FORMAT: dir/one: tensor 'x': is in the file but not in model.safetensors.index.json");
  CHECK(to_line(issues[2]) ==
        "E_FORMAT: dir/two: tensor 'c': is not in the file, to which model.safetensors.index.json maps it");
}

TEST_CASE("index: a wrong total_size is a warning, a right one and none are nothing") {
  const std::map<std::string, FileCatalog> catalogs{{"one", catalog_of({{"a", {4, 2}}, {"b", {4}}})}};
  const std::vector<Warning> warnings = check_tensors("dir/index", {{{"a", "one"}, {"b", "one"}}, 1000, {}}, catalogs);
  REQUIRE(warnings.size() == 1);
  CHECK(to_line(warnings[0]) ==
        "W_INDEX: dir/index: total_size is 1000, the tensors have 48 bytes; the number is not used");
  CHECK(check_tensors("dir/index", {{{"a", "one"}, {"b", "one"}}, 48, {}}, catalogs).empty());
  CHECK(check_tensors("dir/index", {{{"a", "one"}, {"b", "one"}}, {}, {}}, catalogs).empty());
  CHECK(check_tensors("dir/index", {{{"a", "one"}, {"b", "one"}}, 47, {}}, catalogs).size() == 1);
}

TEST_CASE("index: a part of the set that the index does not list holds none of its tensors") {
  Index index;
  index.weight_map = {{"a", "model-00001-of-00002.safetensors"}, {"b", "other.safetensors"}};
  CHECK(unlisted_parts(index, {"config.json", "consolidated-00002-of-00002.safetensors",
                               "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                               "model-00002-of-00003.safetensors", "model-x-of-00002.safetensors"}) ==
        std::vector<std::string>{"model-00002-of-00002.safetensors"});
  check_unlisted_part("d/p", index, catalog_of({{"c", {2}}}));
  CHECK_THROWS_WITH(
      check_unlisted_part("d/p", index, catalog_of({{"b", {2}}, {"c", {2}}})),
      "E_FORMAT: d/p: tensor 'b': is in this file too, model.safetensors.index.json maps it to other.safetensors");
}

TEST_CASE("index: names that are no numbered ones make no set") {
  Index index;
  index.weight_map = {{"a", "model-00001-of-00002.safetensors"},
                      {"b", "model-00001-of-abc.safetensors"},
                      {"c", "shard1-of-00002.safetensors"},
                      {"d", "00001-of-00002.safetensors"}};
  CHECK(unlisted_parts(index,
                       {"00002-of-00002.safetensors", "model--of-00002.safetensors", "model-00002-of-00002.safetensorx",
                        "model-00002-of-abc.safetensors", "shard2-of-00002.safetensors"})
            .empty());
}
