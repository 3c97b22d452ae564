#include "reshard/format/safetensors/index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "reshard/base/json.hpp"

namespace reshard::format::safetensors {
namespace {

/// A million tensors take about 100 MB.
constexpr std::int64_t kMaxIndexBytes = std::int64_t{512} << 20;

[[noreturn]] void fail(const fs::path& path, std::optional<std::string> tensor, std::string message) {
  throw Error(Issue{ErrorCode::kFormat, path.string(), std::move(tensor), std::move(message)});
}

bool is_bare_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return false;
  if (name.find_first_of(std::string_view("/\\\0", 3)) != std::string_view::npos) return false;
  return name.size() < 2 || name[1] != ':';  // a drive letter
}

/// Takes the index from the events: a tree of a million members would cost several times its text.
class IndexHandler : public JsonHandler {
 public:
  explicit IndexHandler(const fs::path& path) : path_(path) {}

  Index take() {
    if (!has_weight_map_) fail(path_, kNoTensor, "has no weight_map");
    return std::move(index_);
  }

  void on_null(Position) override { other("null"); }
  void on_boolean(bool, Position) override { other("a boolean"); }
  void on_integer(std::int64_t value, Position) override {
    if (place_ == Place::kMetadata && key_ == "total_size") {
      index_.total_size = value;
    } else if (place_ == Place::kMetadata && key_ == "total_parameters") {
      index_.total_parameters = value;
    } else {
      other(fmt::format("the number {}", value));
    }
  }
  void on_float(double, std::string_view text, Position) override { other(fmt::format("the number {}", text)); }
  void on_string(std::string_view value, Position) override {
    if (place_ != Place::kWeightMap) return other("a text");
    if (!is_bare_name(value))
      fail(path_, key_,
           fmt::format("is mapped to {}, expected the bare name of a file beside the index", json_string(value)));
    index_.weight_map.emplace(key_, value);
  }
  void on_key(std::string_view key, Position) override {
    if (depth_ == 1 || depth_ == 2) key_ = key;
  }
  void on_object_begin(Position) override {
    if (depth_ == 1 && (key_ == "weight_map" || key_ == "metadata")) {
      place_ = key_ == "weight_map" ? Place::kWeightMap : Place::kMetadata;
      has_weight_map_ = has_weight_map_ || place_ == Place::kWeightMap;
    } else if (depth_ > 0) {
      other("an object");
    }
    ++depth_;
  }
  void on_object_end() override { close(); }
  void on_array_begin(Position) override {
    other("a list");
    ++depth_;
  }
  void on_array_end() override { close(); }

 private:
  enum class Place { kElsewhere, kMetadata, kWeightMap };

  /// A value of a kind that is asked for nowhere: free within `metadata` and under unknown keys.
  void other(const std::string& found) const {
    if (place_ == Place::kWeightMap)
      fail(path_, key_, fmt::format("is mapped to {}, expected the bare name of a file beside the index", found));
    if (depth_ == 0) fail(path_, kNoTensor, fmt::format("is {}, expected an object", found));
    if (depth_ == 1 && (key_ == "weight_map" || key_ == "metadata"))
      fail(path_, kNoTensor, fmt::format("{} is {}, expected an object", key_, found));
  }
  void close() {
    if (--depth_ == 1) place_ = Place::kElsewhere;
  }

  const fs::path& path_;
  Index index_;
  Place place_ = Place::kElsewhere;
  int depth_ = 0;
  std::string key_;
  bool has_weight_map_ = false;
};

/// What the files of one numbered set share: "model--of-00003" of "model-00002-of-00003.safetensors"; empty for other
/// names.
std::string set_of(std::string_view name) {
  constexpr std::string_view kEnding = ".safetensors";
  constexpr std::string_view kDigits = "0123456789";
  if (!name.ends_with(kEnding)) return "";
  name.remove_suffix(kEnding.size());
  const std::size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || name.find_first_not_of(kDigits, of + 4) != std::string_view::npos) return "";
  const std::size_t dash = name.substr(0, of).find_last_not_of(kDigits);
  if (dash == std::string_view::npos || dash + 1 == of || name[dash] != '-') return "";
  return fmt::format("{}{}", name.substr(0, dash + 1), name.substr(of));
}

std::string some_of(const std::vector<std::string>& tensors) {
  constexpr std::size_t kShown = 3;
  std::string out;
  for (std::size_t i = 0; i < std::min(kShown, tensors.size()); ++i)
    out += fmt::format("{}'{}'", i == 0 ? "" : ", ", escaped(tensors[i]));
  if (tensors.size() > kShown) out += fmt::format(" and {} more", tensors.size() - kShown);
  return out;
}

std::string object_text(const std::vector<std::pair<std::string, std::string>>& members) {
  if (members.empty()) return "{}";
  std::string out = "{\n";
  for (std::size_t i = 0; i < members.size(); ++i)
    out += fmt::format("    {}: {}{}\n", json_string(members[i].first), members[i].second,
                       i + 1 < members.size() ? "," : "");
  return out + "  }";
}

}  // namespace

std::map<std::string, std::vector<std::string>> Index::files() const {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [tensor, file] : weight_map) out[file].push_back(tensor);
  return out;
}

Index read_index(const fs::path& path) {
  const std::string text = read_text(path, kMaxIndexBytes);
  IndexHandler handler(path);
  try {
    parse_json(text, path.string(), {}, handler);
  } catch (const Error& error) {
    Issue issue = error.issues().front();
    if (issue.code == ErrorCode::kSyntax || issue.code == ErrorCode::kDupKey) issue.code = ErrorCode::kFormat;
    throw Error(std::move(issue));
  }
  return handler.take();
}

void check_files(const fs::path& directory, const Index& index) {
  IssueList issues;
  for (const auto& [file, tensors] : index.files()) {
    try {
      File::open_to_read(directory / file);
    } catch (const Error& error) {
      Issue issue = error.issues().front();
      issue.message += fmt::format("; {} maps {} to it", kIndexName, some_of(tensors));
      issues.add(std::move(issue));
    }
  }
  if (!issues.empty()) throw Error(issues.issues());
}

std::vector<Warning> check_tensors(const fs::path& path, const Index& index,
                                   const std::map<std::string, FileCatalog>& catalogs) {
  IssueList issues;
  std::int64_t bytes = 0;
  std::set<std::string_view> found;
  for (const auto& [file, catalog] : catalogs) {
    const std::string where = (path.parent_path() / file).string();
    for (const StoredTensor& tensor : catalog.tensors) {
      bytes = checked_add(bytes, payload_bytes(tensor.dtype, tensor.shape));
      const auto mapped = index.weight_map.find(tensor.name);
      if (mapped == index.weight_map.end()) {
        issues.add({ErrorCode::kFormat, where, tensor.name, fmt::format("is in the file but not in {}", kIndexName)});
      } else if (mapped->second != file) {
        issues.add({ErrorCode::kFormat, where, tensor.name,
                    fmt::format("is in this file too, {} maps it to {}", kIndexName, mapped->second)});
      } else {
        found.insert(tensor.name);
      }
    }
  }
  for (const auto& [tensor, file] : index.weight_map)
    if (!found.contains(tensor))
      issues.add({ErrorCode::kFormat, (path.parent_path() / file).string(), tensor,
                  fmt::format("is not in the file, to which {} maps it", kIndexName)});
  issues.throw_if_any(Exit::kCheckpoint);

  if (!index.total_size || *index.total_size == bytes) return {};
  return {
      {"W_INDEX", path.string(), kNoTensor,
       fmt::format("total_size is {}, the tensors have {} bytes; the number is not used", *index.total_size, bytes)}};
}

std::vector<std::string> unlisted_parts(const Index& index, const std::vector<std::string>& names) {
  const std::map<std::string, std::vector<std::string>> files = index.files();
  std::set<std::string> sets;
  for (const auto& [file, tensors] : files) sets.insert(set_of(file));
  sets.erase("");
  std::vector<std::string> out;
  for (const std::string& name : names)
    if (!files.contains(name) && sets.contains(set_of(name))) out.push_back(name);
  return out;
}

void check_unlisted_part(const fs::path& part, const Index& index, const FileCatalog& catalog) {
  IssueList issues;
  for (const StoredTensor& tensor : catalog.tensors)
    if (const auto mapped = index.weight_map.find(tensor.name); mapped != index.weight_map.end())
      issues.add({ErrorCode::kFormat, part.string(), tensor.name,
                  fmt::format("is in this file too, {} maps it to {}", kIndexName, mapped->second)});
  issues.throw_if_any(Exit::kCheckpoint);
}

std::string to_json(const Index& index) {
  std::vector<std::pair<std::string, std::string>> metadata;
  if (index.total_parameters) metadata.emplace_back("total_parameters", std::to_string(*index.total_parameters));
  if (index.total_size) metadata.emplace_back("total_size", std::to_string(*index.total_size));
  std::vector<std::pair<std::string, std::string>> weight_map;
  for (const auto& [tensor, file] : index.weight_map) weight_map.emplace_back(tensor, json_string(file));
  return fmt::format("{{\n  \"metadata\": {},\n  \"weight_map\": {}\n}}\n", object_text(metadata),
                     object_text(weight_map));
}

}  // namespace reshard::format::safetensors
