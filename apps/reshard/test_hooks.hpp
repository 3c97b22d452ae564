#pragma once
// RESHARD_TEST_FLIP=STAGE:TENSOR:NUMBER:PROCESS flips one byte in the NUMBER-th buffer (from 0) of that tensor that
// passes STAGE (read, packed, received, unpacked, readback) on that process: for tests of the digests only.
// RESHARD_TEST_SIGNAL=SIGNAL:STAGE:TENSOR:NUMBER:PROCESS sends that process the signal (a number) there, before the
// buffer goes on: for tests of runs that end halfway.

#include <memory>

#include "reshard/base/process_rank.hpp"
#include "reshard/pipeline/hooks.hpp"

namespace reshard::app {

/// Null where neither variable is set, or it speaks of another process.
std::unique_ptr<pipeline::Hooks> test_hooks(ProcessRank process);

}  // namespace reshard::app
