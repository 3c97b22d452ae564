#pragma once
// Checkpoints that are known but not read: a directory without a name that reshard looks for may hold one, and is then
// refused for what it is, not for its names.

#include <string>
#include <vector>

#include "reshard/base/file.hpp"
#include "reshard/pipeline/formats.hpp"

namespace reshard::pipeline {

/// Reads the headers of the safetensors files among `names` (relative to `root`). Errors: the first kUnsupported of
/// theirs, as of torch.distributed.checkpoint's shards; whatever else may be wrong with them is not told.
void refuse_unsupported_files(const fs::path& root, const std::vector<std::string>& names, const Formats& formats);

}  // namespace reshard::pipeline
