#pragma once
// What can be told of a finished target, or of one about to be put in place, from its manifest and a walk over it.

#include <optional>
#include <string>
#include <vector>

#include "reshard/base/file.hpp"
#include "reshard/pipeline/manifest_reader.hpp"

namespace reshard::pipeline {

/// The plan digest of a finished target; nothing where the directory is none. Errors: kIo.
std::optional<std::string> finished_digest(const fs::path& directory);

/// A file that is not there, or not of the manifest's size, and what is wrong with it; empty where there is none.
std::string wrong_size(const Manifest& manifest, const fs::path& directory);

/// Files below the directory but for the manifest itself and those it lists; relative names, in order. Links count as
/// files wherever they lead, folders do not. Errors: kIo. Cost: one walk over the directory.
std::vector<std::string> unlisted_files(const Manifest& manifest, const fs::path& directory);

}  // namespace reshard::pipeline
