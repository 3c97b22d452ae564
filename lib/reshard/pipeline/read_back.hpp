#pragma once
// The files of a target read again and held against its manifest: `reshard verify`, and `run --verify` before it
// publishes. Every byte is read once: the same piece goes into the digest of its file and, element by element in the
// places that the layout gives them, into those of its tensors.

#include <atomic>
#include <csignal>
#include <cstdint>
#include <vector>

#include "reshard/exchange/communicator.hpp"
#include "reshard/pipeline/formats.hpp"
#include "reshard/pipeline/hooks.hpp"
#include "reshard/pipeline/manifest_reader.hpp"
#include "reshard/pipeline/target_problem.hpp"

namespace reshard::pipeline {

struct ReadBackOptions {
  bool allow_external = false;
  bool from_disk = false;  ///< asks the system to forget what it has of the files in memory
  std::int64_t memory_bytes = std::int64_t{512} << 20;
  int threads = 1;
  Hooks* hooks = nullptr;
  const volatile std::sig_atomic_t* interrupted = nullptr;
  std::atomic<std::int64_t>* progress_bytes = nullptr;
};

struct ReadBack {
  std::vector<TargetProblem> problems;
  std::int64_t bytes = 0;       ///< of the files read, by all processes together
  std::int64_t peak_bytes = 0;  ///< of this process's buffers
};

/// Reads the files of `manifest.file_list` in `directory`: sizes and digests; headers (tensors, dtypes, stored shapes);
/// the digest of every tensor, from every copy; the index of a numbered set. Codes of problems: kMissing (file or
/// tensor), kDigest (size or digest of a file; digest of a tensor; a copy), kDtype, kShape, kDifferent (a tensor or an
/// index entry too many), and those of the format for a header that cannot be read.
///
/// Collective: the processes share the bytes; all return the same problems. Errors: kFormat where the manifest
/// contradicts itself, kIo, kInterrupted.
ReadBack read_back(const Manifest& manifest, const fs::path& directory, const Formats& formats,
                   const ReadBackOptions& options, exchange::Communicator& communicator);

/// The manifest's files, in bytes.
std::int64_t listed_bytes(const Manifest& manifest);

}  // namespace reshard::pipeline
