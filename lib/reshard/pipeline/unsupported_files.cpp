#include "reshard/pipeline/unsupported_files.hpp"

#include "reshard/base/error.hpp"

namespace reshard::pipeline {

void refuse_unsupported_files(const fs::path& root, const std::vector<std::string>& names, const Formats& formats) {
  const format::FileFormat& safetensors = formats.named("safetensors");
  for (const std::string& name : names) {
    if (!name.ends_with(safetensors.extension())) continue;
    try {
      safetensors.read_catalog(root / name, {false, root});
    } catch (const Error& error) {
      if (error.issues().front().code == ErrorCode::kUnsupported) throw;
    }
  }
}

}  // namespace reshard::pipeline
