#pragma once
// What the digests of a target's bytes say of its files and tensors.

#include <vector>

#include "reshard/pipeline/survey_digests.hpp"
#include "reshard/pipeline/target_problem.hpp"
#include "reshard/pipeline/target_survey.hpp"

namespace reshard::pipeline {

/// kDigest problems: files whose digest is not the manifest's, tensors likewise, copies that differ.
std::vector<TargetProblem> judge(const TargetSurvey& survey, const SurveyDigests& digests);

}  // namespace reshard::pipeline
