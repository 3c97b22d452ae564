#pragma once
// `reshard verify`: a finished target read again and held against its manifest.

#include <cstdint>
#include <vector>

#include "reshard/base/file.hpp"
#include "reshard/pipeline/log.hpp"
#include "reshard/pipeline/read_back.hpp"

namespace reshard::pipeline {

struct VerifyOptions {
  fs::path directory;
  ReadBackOptions read;
  Log log = [](std::string_view) {};
  /// Set to the bytes of one process before the first is read, for a progress line.
  std::atomic<std::int64_t>* progress_total = nullptr;
};

struct Verification {
  fs::path directory;
  std::int64_t files = 0;    ///< of the manifest that are there
  std::int64_t tensors = 0;  ///< of the manifest
  std::int64_t bytes = 0;    ///< of the files that were read
  std::vector<TargetProblem> problems;
};

/// Beside the problems of read_back: files that the manifest does not list (kDifferent). Collective. Errors (exit 4):
/// kMissing where there is no manifest, kFormat where it is none; those of read_back.
Verification verify(const VerifyOptions& options, const Formats& formats, exchange::Communicator& communicator);

}  // namespace reshard::pipeline
