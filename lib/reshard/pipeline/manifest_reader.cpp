#include "reshard/pipeline/manifest_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "reshard/base/directory.hpp"
#include "reshard/base/error.hpp"
#include "reshard/pipeline/document_reader.hpp"
#include "reshard/pipeline/staging.hpp"

namespace reshard::pipeline {
namespace {

constexpr std::size_t kDigestDigits = 16;
constexpr DocumentKind kKind{"reshard.manifest", "manifest", "manifest of a finished target"};

class ManifestReader : DocumentReader {
 public:
  explicit ManifestReader(const fs::path& path) : DocumentReader(path, kKind) { out_.path = path; }

  Manifest read(std::string_view json) && {
    const Value root = document(json);
    check_keys(root, "", kNoTensor,
               {"schema", "version", "tool", "plan_digest", "format", "axes", "ranks", "views", "files", "placements",
                "tensors", "file_list"});
    out_.tool = text(root, "tool");
    out_.plan_digest = text(root, "plan_digest");
    digest_of(out_.plan_digest, "plan_digest", {});
    read_side(root);
    for (const Value& placement : list(root, "placements").array())
      out_.placements.push_back(plan::read_placement(placement, out_.side, out_.path.string()));
    for (const Value::Member& tensor : map(root, "tensors").object()) read_tensor(tensor.key, tensor.value);
    for (const Value::Member& file : map(root, "file_list").object()) read_file(file.key, file.value);
    return std::move(out_);
  }

 private:
  std::uint64_t digest_of(const std::string& hex, std::string_view key, std::optional<std::string_view> tensor) const {
    std::uint64_t out = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), out, 16);
    const bool lower = std::none_of(hex.begin(), hex.end(), [](char c) { return c >= 'A' && c <= 'F'; });
    if (hex.size() != kDigestDigits || error != std::errc{} || end != hex.data() + hex.size() || !lower)
      refuse(tensor, fmt::format("'{}' is '{}', expected {} lower-case hex digits", key, hex, kDigestDigits));
    return out;
  }

  void read_side(const Value& root) {
    Value::Object side;
    for (const char* key : {"axes", "ranks", "views", "format", "files"}) {
      const Value& value = require(root, key);
      const bool may_be_null = std::string_view(key) == "ranks" || std::string_view(key) == "files";
      if (value.is_null() && !may_be_null) refuse_kind({}, key, value, "what a plan says there");
      if (!value.is_null()) side.push_back({key, value, value.position});
    }
    out_.side = plan::read_side(Value(std::move(side)), plan::Role::kSource, out_.path.string());
    if (!out_.side.files && (out_.side.mesh.size() != 1 || out_.side.format != "safetensors"))
      refuse({}, "'files' is null, as for a numbered set, which is safetensors of one rank");
  }

  void read_tensor(const std::string& name, const Value& value) {
    check_keys(value, "its entry", name, {"dtype", "shape", "placement", "digest", "source_digest", "stored"});
    ManifestTensor tensor;
    tensor.dtype = dtype(value, name);
    tensor.shape = shape(require(value, "shape", name), "shape", name);
    const std::int64_t placement = number(value, "placement", name);
    if (placement >= std::ssize(out_.placements))
      refuse(name, fmt::format("has placement {} of {}", placement, out_.placements.size()));
    tensor.placement = static_cast<std::size_t>(placement);
    tensor.digest = digest_of(text(value, "digest", name), "digest", name);
    if (value.find("source_digest") != nullptr)
      tensor.source_digest = digest_of(text(value, "source_digest", name), "source_digest", name);
    tensor.stored = value.find("stored") == nullptr ? name : text(value, "stored", name);
    out_.tensors.emplace(name, std::move(tensor));
  }

  void read_file(const std::string& name, const Value& value) {
    const fs::path file(name);
    if (name.empty() || file.is_absolute() || std::find(file.begin(), file.end(), fs::path("..")) != file.end())
      refuse({}, fmt::format("'{}' in 'file_list' is no file below the directory", escaped(name)));
    check_keys(value, fmt::format("'{}' in 'file_list'", escaped(name)), kNoTensor, {"bytes", "digest"});
    out_.file_list[name] = {number(value, "bytes"), digest_of(text(value, "digest"), "digest", {})};
  }

  Manifest out_;
};

}  // namespace

Manifest read_manifest(const fs::path& path) {
  return parse_manifest(read_text(path, kManifestBytes), path);
}

Manifest parse_manifest(std::string_view text, const fs::path& path) {
  try {
    return ManifestReader(path).read(text);
  } catch (const Error& error) {
    if (default_exit(error.issues().front().code) != Exit::kPlan && error.exit() != Exit::kPlan) throw;
    // Faults that are a plan's where a person wrote it; here a file of a checkpoint is wrong.
    std::vector<Issue> issues = error.issues();
    for (Issue& issue : issues) issue.code = ErrorCode::kFormat;
    throw Error(std::move(issues));
  }
}

std::optional<Manifest> find_manifest(const fs::path& source) {
  if (!fs::exists(status_of(source / kManifestName))) return std::nullopt;
  return read_manifest(source / kManifestName);
}

}  // namespace reshard::pipeline
