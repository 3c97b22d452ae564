#pragma once
// Where a run takes place, as far as the choice between reading and sending depends on it.

#include <optional>
#include <string>
#include <string_view>

#include "reshard/base/file.hpp"
#include "reshard/exchange/communicator.hpp"

namespace reshard::pipeline {

enum class Storage {
  kMemory,   ///< a file system in memory: reading scales with the processes
  kDisk,     ///< local: all processes share its rate
  kNetwork,  ///< or parallel: they share its rate too, and every read is a round trip
};

/// "memory", "a local disk", "a network file system".
std::string_view name(Storage storage);

/// By the type of the file system that holds `path` (statfs(2), linux/magic.h); kDisk where that tells nothing.
Storage storage_of(const fs::path& path);

struct Machine {
  Storage storage = Storage::kDisk;  ///< of the source
  int nodes = 1;                     ///< over which the processes are spread
  /// Where every process has a GPU of its own that may take part: with which CUDA and NCCL.
  std::optional<std::string> gpus = {};
};

/// The same on every process: storage as process 0 sees it. Collective.
Machine machine_of(const fs::path& source, exchange::Communicator& communicator);

}  // namespace reshard::pipeline
