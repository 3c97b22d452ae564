#pragma once
// The beginning of a run that continues another one: which of its files and bytes are as they should be.

#include <cstdint>

#include "reshard/base/file.hpp"
#include "reshard/pipeline/job.hpp"
#include "reshard/pipeline/journal.hpp"
#include "reshard/pipeline/target.hpp"
#include "reshard/pipeline/trusted.hpp"

namespace reshard::pipeline {

/// Makes what files are missing or damaged (keep_files), reads every extent that the journals tell of the others, and
/// trusts those that hold what they say; `journal` then tells of these alone. The processes share the reading.
/// Collective. Returns the peak of this process's buffers. Errors: kIo, kInterrupted.
std::int64_t trust_earlier_run(const Job& job, const TargetFiles& target, const fs::path& directory,
                               const JournaledFiles& files, Trusted& trusted);

}  // namespace reshard::pipeline
