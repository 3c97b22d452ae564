#include "reshard/pipeline/replicas.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>
#include <vector>

#include "reshard/pipeline/differences.hpp"

namespace reshard::pipeline {
namespace {

constexpr std::size_t kIssues = 32;

Issue issue_of(const Job& job, std::size_t t, const Difference& difference) {
  const planner::BoundTensor& tensor = job.bound.tensors[t];
  const auto file = [&](planner::Index rank) {
    return job.source.file_names()[job.source.locate(rank, tensor.source_stored_name()).file];
  };
  const Shape at = coordinates_of(job.bound.layouts[tensor.layout].source.shape, difference.element);
  return {ErrorCode::kReplica, (job.source.root() / file(difference.other_rank)).string(), tensor.source_name,
          fmt::format("differs from its copy in {} at element [{}] (ranks {} and {})", file(difference.one_rank),
                      fmt::join(at, ", "), difference.other_rank, difference.one_rank)};
}

}  // namespace

std::int64_t check_replicas(const Job& job) {
  // Every tensor of which the source holds something more than once, against itself.
  std::vector<std::size_t> tensors;
  std::vector<TensorPair> pairs;
  std::vector<std::optional<bool>> replicated(job.bound.layouts.size());
  for (std::size_t t = 0; t < job.work.size(); ++t) {
    const planner::BoundTensor& tensor = job.bound.tensors[t];
    const layout::TensorLayout& source = job.bound.layouts[tensor.layout].source;
    if (!replicated[tensor.layout]) replicated[tensor.layout] = has_copies(source);
    if (!*replicated[tensor.layout]) continue;
    const HeldTensor held{&source, tensor.source_stored_name(), tensor.source_dtype};
    tensors.push_back(t);
    pairs.push_back({held, held, tensor.source_dtype, job.work[t].sources});
  }
  DifferenceOptions options;
  options.memory_bytes = job.memory_bytes;
  options.threads = job.threads;
  options.ledger = &job.ledger;
  options.interrupted = job.interrupted;
  const OpenCheckpoint source{job.source, job.readers};
  const Differences differences = first_differences(source, source, pairs, options, job.communicator);

  exchange::agreed(job.communicator, [&] {
    IssueList issues;
    for (const auto& [pair, difference] : differences.first)
      if (issues.issues().size() < kIssues) issues.add(issue_of(job, tensors[pair], difference));
    if (differences.first.size() > kIssues)
      issues.add({ErrorCode::kReplica, job.source.root().string(), kNoTensor,
                  fmt::format("{} more tensors have copies that differ", differences.first.size() - kIssues)});
    issues.throw_if_any(Exit::kCheckpoint);
  });
  return differences.peak_bytes;
}

}  // namespace reshard::pipeline
