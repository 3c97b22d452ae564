#pragma once
// What tests do to a run, by variables of the environment that nothing else sets. A PLACE is PHASE:PROCESS (prepare,
// claim, stage, trust, create, move, flush, manifest, publish), or STAGE:TENSOR:NUMBER:PROCESS: where the NUMBER-th
// buffer (from 0) of that tensor passes STAGE (read, packed, received, unpacked, readback).
//
//   RESHARD_TEST_FLIP=PLACE           flips one byte of the buffer: for tests of the digests
//   RESHARD_TEST_SIGNAL=SIGNAL:PLACE  sends the process this signal (a number): for tests of runs that end halfway
//   RESHARD_TEST_FAIL=FAULT:PLACE     throws there: memory (a failed allocation), io, format (a fault of the
//   checkpoint),
//                                     exception (one that nothing expects): for tests of failing together

#include <memory>

#include "reshard/base/process_rank.hpp"
#include "reshard/pipeline/hooks.hpp"

namespace reshard::app {

/// Null where no variable is set, or they speak of another process. Errors: kUsage where a variable cannot be read.
std::unique_ptr<pipeline::Hooks> test_hooks(ProcessRank process);

}  // namespace reshard::app
