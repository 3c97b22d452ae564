#include "reshard/pipeline/finished_target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "reshard/base/directory.hpp"
#include "reshard/base/error.hpp"
#include "reshard/pipeline/staging.hpp"

namespace reshard::pipeline {

std::optional<std::string> finished_digest(const fs::path& directory) {
  try {
    const std::optional<Manifest> manifest = find_manifest(directory);
    return manifest ? std::optional(manifest->plan_digest) : std::nullopt;
  } catch (const Error& error) {
    if (error.issues().front().code == ErrorCode::kIo) throw;
    return std::nullopt;  // no manifest of ours
  }
}

std::string wrong_size(const std::map<std::string, ManifestFile>& listed, const fs::path& directory) {
  for (const auto& [name, file] : listed) {
    if (!fs::is_regular_file(status_of(directory / name))) return fmt::format("{} is not there", name);
    const std::int64_t bytes = state_of(directory / name).bytes;
    if (bytes != file.bytes) return fmt::format("{} has {} bytes, expected {}", name, bytes, file.bytes);
  }
  return {};
}

std::vector<std::string> unlisted_files(const std::map<std::string, ManifestFile>& listed, const fs::path& directory) {
  std::vector<std::string> out;
  std::error_code error;
  fs::recursive_directory_iterator entries(directory, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    const fs::directory_entry& entry = *entries;
    if (entry.is_directory() && !entry.is_symlink()) continue;
    std::string name = entry.path().lexically_relative(directory).string();
    if (name != kManifestName && !listed.contains(name)) out.push_back(std::move(name));
  }
  if (error) io_error(directory, "list", error.value());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace reshard::pipeline
