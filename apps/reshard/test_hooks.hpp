#pragma once
// RESHARD_TEST_FLIP=STAGE:TENSOR:NUMBER:PROCESS flips one byte in the NUMBER-th buffer (from 0) of that tensor that
// passes STAGE (read, packed, received, unpacked, readback) on that process. For tests of the digests only.

#include <memory>

#include "reshard/base/process_rank.hpp"
#include "reshard/pipeline/hooks.hpp"

namespace reshard::app {

/// Null where the variable is not set or speaks of another process.
std::unique_ptr<pipeline::Hooks> test_hooks(ProcessRank process);

}  // namespace reshard::app
