#pragma once
// Checkpoints whose files lie in folders of their own ("rank_0/model.safetensors"): no default names find them.

#include <string>

#include "reshard/base/file.hpp"
#include "reshard/pipeline/formats.hpp"

namespace reshard::pipeline {

/// For a message about a directory in which no checkpoint was found: names some files in the folders below it that end
/// like one of the formats', and says how they are read. Empty where there are none. Looks at three levels and ten
/// thousand entries, no further; folders that cannot be read are passed over.
std::string nested_files_hint(const fs::path& directory, const Formats& formats);

}  // namespace reshard::pipeline
