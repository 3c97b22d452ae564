#pragma once
// Small safetensors checkpoints on disk, with plans for them.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshard/base/file.hpp"
#include "reshard/format/format.hpp"
#include "reshard/pipeline/prepare.hpp"
#include "support/temporary_directory.hpp"

namespace reshard::test {

/// Formats that need no child process; they outlive what was prepared with them.
const pipeline::Formats& test_formats();

/// A file of zeros.
void write_checkpoint(const fs::path& path, std::vector<format::NewTensor> tensors);

struct PreparedPlan {
  pipeline::PrepareOptions options;
  std::unique_ptr<pipeline::Prepared> prepared;
};

/// A plan in YAML for a source directory.
PreparedPlan prepare_plan(std::string_view yaml, const fs::path& source, pipeline::PrepareOptions options = {});

/// "E_MISSING" of the first issue; "accepted" where nothing is thrown.
template <typename Action>
std::string code_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(code_name(error.issues().front().code));
  }
  return "accepted";
}

}  // namespace reshard::test
