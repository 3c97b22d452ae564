#pragma once
// The bytes of a target, each read once: the same piece goes into the digest of its file and, element by element in the
// places that the layout gives them, into those of its tensors.

#include <cstdint>
#include <vector>

#include "reshard/exchange/communicator.hpp"
#include "reshard/pipeline/read_back.hpp"
#include "reshard/pipeline/target_survey.hpp"

namespace reshard::pipeline {

/// Raw registers (base/crc64.hpp) of whole files and sets, whoever read their pieces.
struct SurveyDigests {
  std::vector<std::uint64_t> files;  ///< by file of the survey; of those that are whole
  std::vector<std::uint64_t> sets;   ///< by register: of every HolderSets::Set of every shard
  std::int64_t peak_bytes = 0;       ///< of this process's buffers
};

/// Collective: the processes share the bytes and the digests. Errors: kIo, kInterrupted, on all processes alike.
SurveyDigests read_digests(const TargetSurvey& survey, const ReadBackOptions& options,
                           exchange::Communicator& communicator);

}  // namespace reshard::pipeline
