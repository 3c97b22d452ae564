#include "reshard/pipeline/side_files.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "reshard/base/crc64.hpp"
#include "reshard/base/directory.hpp"
#include "reshard/pipeline/journal.hpp"

namespace reshard::pipeline {
namespace {

/// Weights in whatever format: they are never side files.
constexpr std::array<std::string_view, 13> kWeightEndings = {".safetensors", ".h5",   ".hdf5",   ".keras", ".bin",
                                                             ".pt",          ".pth",  ".ckpt",   ".gguf",  ".npz",
                                                             ".index.json",  ".onnx", ".msgpack"};

bool holds_weights(std::string_view name) {
  return std::any_of(kWeightEndings.begin(), kWeightEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

std::vector<std::string> side_files(const fs::path& root, const std::vector<std::string>& names,
                                    const std::vector<std::string>& taken) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos || holds_weights(name) || is_staging_name(name)) continue;
    if (std::find(taken.begin(), taken.end(), name) != taken.end()) continue;
    if (fs::is_regular_file(status_of(root / name)) && state_of(root / name).bytes <= kSideFileBytes)
      out.push_back(name);
  }
  return out;
}

std::map<std::string, ManifestFile> copy_side_files(const fs::path& root, const std::vector<std::string>& names,
                                                    const fs::path& directory) {
  std::map<std::string, ManifestFile> out;
  for (const std::string& name : names) {
    const std::string text = read_text(root / name, kSideFileBytes);
    write_text(directory / name, text);
    out[name] = {static_cast<std::int64_t>(text.size()), crc64::digest(std::as_bytes(std::span(text)))};
  }
  return out;
}

}  // namespace reshard::pipeline
