#pragma once
// --check-replicas: every copy that the source holds of a moved tensor's elements is read and compared with the one
// that the run reads: those of replica ranks, and the overlaps that `repeat` makes. Padding is never compared.

#include "reshard/pipeline/job.hpp"

namespace reshard::pipeline {

/// Reads the source piece by piece within the memory bound; nothing is written. Collective: the processes share the
/// pieces, and all throw the same error. Returns the peak of this process's staging memory. Errors: kReplica naming,
/// for each tensor, the first element that differs and two files; kMemory where the bound is too small, naming the
/// least that works; kIo, kFormat, kInterrupted.
std::int64_t check_replicas(const Job& job);

}  // namespace reshard::pipeline
