#include "reshard/pipeline/read_back.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/pipeline/survey_digests.hpp"
#include "reshard/pipeline/survey_judgement.hpp"
#include "reshard/pipeline/target_survey.hpp"

namespace reshard::pipeline {
namespace {

/// The processes must have seen the same headers: what they sum up belongs together.
void check_same_survey(const TargetSurvey& survey, exchange::Communicator& communicator, const fs::path& directory) {
  std::string text = fmt::format("{} {}\n", survey.registers(), survey.scattered().size());
  for (const TargetProblem& problem : survey.problems())
    text += fmt::format("{} {} {} {}\n", problem.file, problem.tensor.value_or(""), problem.expected, problem.found);
  const bool same = exchange::same_everywhere(communicator, text);
  exchange::agreed(communicator, [&] {
    if (same) return;
    throw Error(Issue{ErrorCode::kMissing, directory.string(), kNoTensor,
                      "the processes do not see the same files: is it on a file system that all nodes share?"});
  });
}

}  // namespace

ReadBack read_back(const Manifest& manifest, const fs::path& directory, const Formats& formats,
                   const ReadBackOptions& options, exchange::Communicator& communicator) {
  ReadBack out;
  std::unique_ptr<TargetSurvey> survey;
  exchange::agreed(communicator, [&] {
    survey = std::make_unique<TargetSurvey>(manifest, directory, formats, options.allow_external);
  });
  check_same_survey(*survey, communicator, directory);
  const SurveyDigests digests = read_digests(*survey, options, communicator);
  out.peak_bytes = digests.peak_bytes;
  out.problems = survey->problems();
  const std::vector<TargetProblem> found = judge(*survey, digests);
  out.problems.insert(out.problems.end(), found.begin(), found.end());
  std::stable_sort(out.problems.begin(), out.problems.end(), [](const TargetProblem& a, const TargetProblem& b) {
    return std::pair(a.file, a.tensor) < std::pair(b.file, b.tensor);
  });
  for (const TargetSurvey::File& file : survey->files())
    if (file.is_whole) out.bytes += file.expected.bytes;
  return out;
}

std::int64_t listed_bytes(const Manifest& manifest) {
  std::int64_t out = 0;
  for (const auto& [name, file] : manifest.file_list) out = checked_add(out, file.bytes);
  return out;
}

}  // namespace reshard::pipeline
