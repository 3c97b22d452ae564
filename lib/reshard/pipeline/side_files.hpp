#pragma once
// Small files that lie beside the tensors and that loaders need: config.json, tokenizers.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reshard/base/file.hpp"
#include "reshard/pipeline/manifest.hpp"

namespace reshard::pipeline {

inline constexpr std::int64_t kSideFileBytes = std::int64_t{64} << 20;

/// Those of `names` (relative to `root`) that are side files: regular, at the top level, no larger than kSideFileBytes,
/// no checkpoint of any kind, and not named like one of `taken` or like a file of the staging directory (journal.hpp).
std::vector<std::string> side_files(const fs::path& root, const std::vector<std::string>& names,
                                    const std::vector<std::string>& taken);

/// Copies them into `directory`, flushed; links are followed. Returns their entries for the manifest.
std::map<std::string, ManifestFile> copy_side_files(const fs::path& root, const std::vector<std::string>& names,
                                                    const fs::path& directory);

}  // namespace reshard::pipeline
