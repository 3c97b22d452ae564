#include "reshard/planner/binding_stored.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {
namespace {

std::string run_ranks(const StoredRun& run) {
  return run.first_rank == run.last_rank ? fmt::format("rank {}", run.first_rank)
                                         : fmt::format("ranks {} to {}", run.first_rank, run.last_rank);
}

}  // namespace

void add_faults(const Error& error, std::size_t tensor, const std::string& prefix, std::vector<Fault>& faults) {
  for (const Issue& issue : error.issues()) {
    const Exit exit = default_exit(issue.code);
    if (exit != Exit::kCheckpoint && exit != Exit::kPlan) throw error;
  }
  for (const Issue& issue : error.issues()) faults.push_back({tensor, issue.code, prefix + issue.message});
}

Stored collect_stored(const std::vector<StoredRun>& runs, Index ranks, std::size_t tensor, std::vector<Fault>& faults) {
  Stored out;
  out.by_rank.resize(static_cast<std::size_t>(ranks));
  out.present.resize(static_cast<std::size_t>(ranks));
  const StoredRun& first = runs.front();
  out.dtype = first.dtype;
  out.rank_of_tensor = first.shape.size();
  const StoredRun* recorder = nullptr;
  bool same_dtype = true;
  bool same_rank = true;
  bool same_record = true;
  for (const StoredRun& run : runs) {
    if (run.dtype != first.dtype && std::exchange(same_dtype, false))
      faults.push_back({tensor, ErrorCode::kDtype,
                        fmt::format("{} on {}, {} on {}; all ranks must store one dtype", name(first.dtype),
                                    run_ranks(first), name(run.dtype), run_ranks(run))});
    if (run.shape.size() != first.shape.size() && std::exchange(same_rank, false))
      faults.push_back({tensor, ErrorCode::kShape,
                        fmt::format("{} on {}, {} on {}; all ranks must store the same number of dims",
                                    shape_text(first.shape), run_ranks(first), shape_text(run.shape), run_ranks(run))});
    if (run.global_shape) {
      if (recorder && *run.global_shape != *recorder->global_shape && std::exchange(same_record, false))
        faults.push_back(
            {tensor, ErrorCode::kShape,
             fmt::format("global shape {} is recorded on {}, {} on {}", shape_text(*recorder->global_shape),
                         run_ranks(*recorder), shape_text(*run.global_shape), run_ranks(run))});
      if (!recorder) recorder = &run;
    }
    for (Index rank = run.first_rank; rank <= run.last_rank; ++rank) {
      out.by_rank[static_cast<std::size_t>(rank)] = run.shape;
      out.present[static_cast<std::size_t>(rank)] = true;
    }
  }
  if (recorder) {
    out.recorded = recorder->global_shape;
    if (out.recorded->size() != out.rank_of_tensor)
      faults.push_back({tensor, ErrorCode::kShape,
                        fmt::format("the recorded global shape {} has other dims than the stored {} on {}",
                                    shape_text(*out.recorded), shape_text(first.shape), run_ranks(first))});
  }
  return out;
}

void check_presence(const Stored& stored, const std::vector<bool>& expected, bool owned, std::size_t tensor,
                    std::vector<Fault>& faults) {
  std::vector<Index> missing;
  std::vector<Index> extra;
  std::vector<Index> holders;
  for (std::size_t rank = 0; rank < stored.present.size(); ++rank) {
    const bool wanted = expected.empty() || expected[rank];
    if (wanted) holders.push_back(static_cast<Index>(rank));
    if (wanted && !stored.present[rank]) missing.push_back(static_cast<Index>(rank));
    if (!wanted && stored.present[rank]) extra.push_back(static_cast<Index>(rank));
  }
  if (missing.empty() && extra.empty()) return;
  std::string message;
  if (!missing.empty()) message = fmt::format("not stored on {}", rank_list(missing));
  if (!extra.empty()) message += fmt::format("{}stored on {}", missing.empty() ? "" : ", but ", rank_list(extra));
  message += owned ? fmt::format("; by `owner` it belongs on {}", rank_list(holders))
                   : std::string("; without `owner` every rank must have it");
  faults.push_back({tensor, ErrorCode::kMissing, std::move(message)});
}

void check_layout(const Stored& stored, const layout::TensorLayout& layout, std::size_t tensor,
                  std::vector<Fault>& faults) {
  if (stored.recorded && *stored.recorded != layout.shape)
    faults.push_back(
        {tensor, ErrorCode::kShape,
         fmt::format("the checkpoint records the global shape {}, the plan and the stored shards make it {}",
                     shape_text(*stored.recorded), shape_text(layout.shape))});
  std::vector<Index> wrong;
  for (Index rank = 0; rank < layout.ranks; ++rank) {
    const auto slot = static_cast<std::size_t>(rank);
    if (stored.present[slot] && stored.by_rank[slot] != layout.stored_shape(rank)) wrong.push_back(rank);
  }
  if (wrong.empty()) return;
  const Index rank = wrong.front();
  std::string message = fmt::format("rank {} stores {}, the plan makes it {} of {}", rank,
                                    shape_text(stored.by_rank[static_cast<std::size_t>(rank)]),
                                    shape_text(layout.stored_shape(rank)), shape_text(layout.shape));
  if (wrong.size() > 1) message += fmt::format("; wrong on {}", rank_list(wrong));
  faults.push_back({tensor, ErrorCode::kShape, std::move(message)});
}

std::int64_t target_bytes(const layout::TensorLayout& target, Dtype dtype, std::size_t tensor,
                          std::vector<Fault>& faults) {
  std::int64_t bytes = target.ranks * size_bytes(dtype);
  Shape longest;
  bool fits = true;
  for (const layout::DimLayout& dim : target.dims) {
    longest.push_back(0);
    for (const layout::DimShard& part : dim.parts) longest.back() = std::max(longest.back(), part.stored_length);
    // A dim without elements counts as one: the strides of the others are to fit as well.
    fits = fits && !__builtin_mul_overflow(bytes, std::max<Index>(longest.back(), 1), &bytes);
  }
  if (fits && bytes <= kMostTargetBytes) return bytes;
  faults.push_back({tensor, ErrorCode::kOverflow,
                    fmt::format("target: shards of {} of {} on {} ranks, more than 2^62 bytes", shape_text(longest),
                                name(dtype), target.ranks)});
  return 0;
}

}  // namespace reshard::planner
