#pragma once
// What is wrong with a finished target.

#include <optional>
#include <string>

#include "reshard/base/error.hpp"

namespace reshard::pipeline {

/// Something that is not as the manifest says. `file`: relative to the target; empty where a tensor of several files is
/// wrong and their own digests do not tell which. `tensor`: nothing where the file itself is meant.
struct TargetProblem {
  ErrorCode code = ErrorCode::kInternal;
  std::string file;
  std::optional<std::string> tensor;
  std::string expected;
  std::string found;

  friend bool operator==(const TargetProblem&, const TargetProblem&) = default;
};

}  // namespace reshard::pipeline
