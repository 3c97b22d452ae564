#pragma once
// The files of a target in its staging directory, without their tensor bytes: made, found again after a run that did
// not finish, digested. The processes take the files in turn; none of this is collective, the caller agrees afterwards.

#include <cstdint>
#include <vector>

#include "reshard/base/file.hpp"
#include "reshard/pipeline/job.hpp"
#include "reshard/pipeline/target.hpp"

namespace reshard::pipeline {

/// Makes this process's files. Errors: kIo, kInterrupted.
void create_files(const Job& job, const TargetFiles& target, const fs::path& directory);

/// Makes those of this process's files that are not there as they should be, by size and every byte outside their
/// tensors; a file that is replaced is replaced whole. By file: 1 where this process has kept it, else 0.
std::vector<std::int64_t> keep_files(const Job& job, const TargetFiles& target, const fs::path& directory);

/// Adds everything in this process's files that is no tensor byte to their digests.
void digest_headers(const Job& job, const TargetFiles& target, const fs::path& directory);

}  // namespace reshard::pipeline
