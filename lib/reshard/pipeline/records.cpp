#include "reshard/pipeline/records.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "reshard/pipeline/manifest_layouts.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;
using planner::StoredRun;

/// A checkpoint that is not the manifest's differs in every tensor: so many are told.
constexpr std::size_t kIssues = 16;

bool continues(const StoredRun& run, const StoredRun& next, bool with_global_shape) {
  return run.last_rank + 1 == next.first_rank && run.shape == next.shape && run.dtype == next.dtype &&
         (!with_global_shape || run.global_shape == next.global_shape);
}

std::vector<StoredRun> joined(const std::vector<StoredRun>& runs, bool with_global_shape) {
  std::vector<StoredRun> out;
  for (const StoredRun& run : runs) {
    if (!out.empty() && continues(out.back(), run, with_global_shape)) {
      out.back().last_rank = run.last_rank;
    } else {
      out.push_back(run);
    }
    if (!with_global_shape) out.back().global_shape = std::nullopt;
  }
  return out;
}

const StoredRun* run_at(const std::vector<StoredRun>& runs, Index rank) {
  const auto run =
      std::find_if(runs.begin(), runs.end(), [&](const StoredRun& candidate) { return rank <= candidate.last_rank; });
  return run == runs.end() || rank < run->first_rank ? nullptr : &*run;
}

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

class Recorder {
 public:
  Recorder(const Manifest& manifest, planner::SourceCatalog& catalog)
      : manifest_(manifest), catalog_(catalog), layouts_(manifest) {}

  void record() {
    std::map<std::string, std::vector<Entry>> by_stored_name;
    for (const auto& entry : manifest_.tensors) by_stored_name[entry.second.stored].push_back(&entry);
    for (planner::SourceTensor& tensor : catalog_.tensors) {
      const auto recorded = by_stored_name.find(tensor.name);
      if (recorded != by_stored_name.end()) {
        record(tensor, recorded->second);
        by_stored_name.erase(recorded);
      } else if (!tensor.stored.empty()) {
        add(ErrorCode::kFormat, tensor.name, "is in the files, but not in the manifest");
      }
    }
    for (const auto& [stored, entries] : by_stored_name)
      add(ErrorCode::kFormat, entries.front()->first,
          fmt::format("is in the manifest, but no file has '{}'", escaped(stored)));
    if (more_ > 0)
      issues_.add(
          {ErrorCode::kFormat, manifest_.path.string(), kNoTensor, fmt::format("{} more faults of this kind", more_)});
    issues_.throw_if_any(Exit::kCheckpoint);
    catalog_.recorded_layouts = layouts_.take();
  }

 private:
  using Entry = const std::pair<const std::string, ManifestTensor>*;

  void add(ErrorCode code, const std::string& tensor, std::string message) {
    if (issues_.issues().size() >= kIssues) {
      ++more_;
    } else {
      issues_.add({code, manifest_.path.string(), tensor, std::move(message)});
    }
  }

  void record(planner::SourceTensor& tensor, const std::vector<Entry>& entries) {
    std::vector<StoredRun> expected;
    for (const Entry entry : entries) {
      const std::optional<std::size_t> layout = layout_of(*entry);
      if (!layout) return;
      tensor.recorded.push_back({entry->first, *layout});
      for (const StoredRun& run : runs_[*layout]) {
        expected.push_back(run);
        expected.back().dtype = entry->second.dtype;
      }
    }
    std::sort(expected.begin(), expected.end(),
              [](const StoredRun& a, const StoredRun& b) { return a.first_rank < b.first_rank; });
    for (std::size_t i = 1; i < expected.size(); ++i)
      if (expected[i].first_rank <= expected[i - 1].last_rank)
        return add(ErrorCode::kFormat, entries.front()->first,
                   fmt::format("is not the only tensor stored as '{}' on rank {}", escaped(tensor.name),
                               expected[i].first_rank));
    if (joined(expected, false) != joined(tensor.stored, false)) return add_difference(tensor, expected);
    for (const StoredRun& run : tensor.stored)
      for (Index rank = run.first_rank; run.global_shape && rank <= run.last_rank;) {
        const StoredRun& known = *run_at(expected, rank);
        if (known.global_shape != run.global_shape)
          return add(ErrorCode::kShape, tensor.name,
                     fmt::format("has the global shape {} in the manifest, {} in the file of rank {}",
                                 shape_text(*known.global_shape), shape_text(*run.global_shape), rank));
        rank = known.last_rank + 1;
      }
    tensor.stored = joined(expected, true);
  }

  /// Tells the first rank on which files and manifest differ.
  void add_difference(const planner::SourceTensor& tensor, const std::vector<StoredRun>& expected) {
    for (Index rank = 0; rank < catalog_.ranks; ++rank) {
      const StoredRun* const wanted = run_at(expected, rank);
      const StoredRun* const found = run_at(tensor.stored, rank);
      if (wanted == nullptr && found == nullptr) continue;
      if (wanted == nullptr || found == nullptr)
        return add(ErrorCode::kFormat, tensor.name,
                   fmt::format("is {} the file of rank {}, by the manifest it is {}",
                               found == nullptr ? "not in" : "in", rank, found == nullptr ? "there" : "not there"));
      if (wanted->dtype != found->dtype)
        return add(ErrorCode::kFormat, tensor.name,
                   fmt::format("is {} in the file of rank {}, {} in the manifest", name(found->dtype), rank,
                               name(wanted->dtype)));
      if (wanted->shape != found->shape)
        return add(
            ErrorCode::kShape, tensor.name,
            fmt::format("is stored as {} in the file of rank {}; by the manifest it is {} of {}",
                        shape_text(found->shape), rank, shape_text(wanted->shape), shape_text(*wanted->global_shape)));
    }
  }

  /// The number of the layout of a tensor among the recorded ones. Nothing after a fault.
  std::optional<std::size_t> layout_of(const std::pair<const std::string, ManifestTensor>& entry) {
    const ManifestTensor& tensor = entry.second;
    try {
      const std::size_t number = layouts_.number_of(tensor);
      if (number == runs_.size()) runs_.push_back(runs_of(layouts_[number].layout));
      return number;
    } catch (const Error& error) {
      if (error.issues().front().code == ErrorCode::kInternal) throw;
      add(ErrorCode::kFormat, entry.first,
          fmt::format("has the shape {}, which its placement {} cannot cut: {}", shape_text(tensor.shape),
                      tensor.placement, error.issues().front().message));
      return std::nullopt;
    }
  }

  static std::vector<StoredRun> runs_of(const layout::TensorLayout& layout) {
    std::vector<StoredRun> runs;
    for (Index rank = 0; rank < layout.ranks; ++rank)
      if (layout.is_present(rank)) runs.push_back({rank, rank, layout.stored_shape(rank), Dtype::kU8, layout.shape});
    return joined(runs, true);
  }

  const Manifest& manifest_;
  planner::SourceCatalog& catalog_;
  ManifestLayouts layouts_;
  std::vector<std::vector<StoredRun>> runs_;  // by layout; without a dtype
  IssueList issues_;
  std::size_t more_ = 0;
};

}  // namespace

void add_records(const Manifest& manifest, planner::SourceCatalog& catalog) {
  Recorder(manifest, catalog).record();
}

std::string records_text(const planner::SourceCatalog& catalog) {
  std::string out;
  for (const planner::SourceTensor& tensor : catalog.tensors)
    for (const planner::RecordedTensor& recorded : tensor.recorded) {
      const planner::RecordedLayout& layout = catalog.recorded_layouts[recorded.layout];
      out += fmt::format("{} as {} {} {}\n", escaped(recorded.name), escaped(tensor.name),
                         shape_text(layout.layout.shape), layout.text);
    }
  return out;
}

}  // namespace reshard::pipeline
