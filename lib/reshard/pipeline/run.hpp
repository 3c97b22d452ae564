#pragma once
// `reshard run`: from a prepared plan to a published target.

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "reshard/exchange/communicator.hpp"
#include "reshard/exchange/device.hpp"
#include "reshard/pipeline/hooks.hpp"
#include "reshard/pipeline/ledger.hpp"
#include "reshard/pipeline/prepare.hpp"
#include "reshard/pipeline/staging.hpp"

namespace reshard::pipeline {

struct RunOptions {
  PrepareOptions prepare;  ///< with `processes` of the communicator
  StagingOptions staging;
  bool copy_side_files = false;
  bool check_replicas = false;
  bool verify = false;             ///< reads the files again before they are published
  std::string tool;                ///< "reshard 0.1.0", for the manifest
  exchange::Gpus* gpus = nullptr;  ///< nothing: this build has no GPU transport
  Hooks* hooks = nullptr;
  const volatile std::sig_atomic_t* interrupted = nullptr;
  std::atomic<std::int64_t>* progress_bytes = nullptr;
  /// Set to the bytes to be written before the first one moves, for a progress line.
  std::atomic<std::int64_t>* progress_total = nullptr;
};

/// One stage of the work: the slowest process's seconds (summed over its threads), and bytes of all processes.
struct StageResult {
  double seconds = 0;
  std::int64_t bytes = 0;
};

struct RunResult {
  std::unique_ptr<Prepared> prepared;
  fs::path target;
  /// kPublish, kFinished: nothing was read or written by this run; what follows is zero but for `bytes_resumed` and
  /// `side_files_left`, those that the target lacks.
  Start start = Start::kNothing;
  double seconds = 0;
  std::vector<StageResult> stages;               ///< by Stage
  std::vector<std::int64_t> bytes_read;          ///< by process
  std::vector<std::int64_t> peak_staging_bytes;  ///< by process
  std::vector<std::int64_t> peak_rss_bytes;      ///< by process
  std::int64_t bytes_resumed = 0;                ///< written by an earlier run and trusted
  std::int64_t digests_checked = 0;
  std::vector<std::string> side_files;       ///< copied
  std::vector<std::string> side_files_left;  ///< not copied, though loaders may need them
};

/// Collective. Errors: those of prepare, Staging, the transports, kDigest (exit 4) where an earlier run has written
/// from a source that has changed since; all processes throw the same one. Nothing is published unless everything was
/// written, flushed and its digests agreed: with `verify` also those of the files read back. `formats` outlives the
/// result.
RunResult run(const RunOptions& options, const Formats& formats, exchange::Communicator& communicator);

}  // namespace reshard::pipeline
