#include "reshard/pipeline/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory_resource>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/format/safetensors/index.hpp"
#include "reshard/pipeline/inspect_reader.hpp"
#include "reshard/pipeline/job.hpp"
#include "reshard/pipeline/journal.hpp"
#include "reshard/pipeline/records.hpp"

namespace reshard::pipeline {

using planner::Index;

void SourceCheckpoint::read_catalogs(const format::ReadOptions& options, int threads) {
  files_.resize(names_.size());
  std::vector<std::optional<Error>> errors(names_.size());
  parallel_for(threads, names_.size(), [&](std::size_t f) {
    try {
      files_[f] = format_->read_catalog(root_ / names_[f], options);
    } catch (const Error& error) {
      errors[f] = error;
    }
  });
  IssueList issues;
  for (std::size_t f = 0; f < names_.size(); ++f) {
    if (errors[f] && errors[f]->exit() != Exit::kCheckpoint) throw *errors[f];
    if (errors[f]) issues.add(*errors[f]);
    warnings_.insert(warnings_.end(), files_[f].warnings.begin(), files_[f].warnings.end());
  }
  issues.throw_if_any(Exit::kCheckpoint);
  if (!indexed_) return;
  const fs::path path = root_ / format::safetensors::kIndexName;
  const format::safetensors::Index index = format::safetensors::read_index(path);
  std::map<std::string, format::FileCatalog> by_name;
  for (std::size_t f = 0; f < names_.size(); ++f) by_name.emplace(names_[f], files_[f]);
  const std::vector<Warning> more = format::safetensors::check_tensors(path, index, by_name);
  warnings_.insert(warnings_.end(), more.begin(), more.end());
  for (const std::string& part : format::safetensors::unlisted_parts(index, ignored_)) {
    std::optional<format::FileCatalog> catalog;
    try {
      catalog = format_->read_catalog(root_ / part, options);
    } catch (const Error&) {
      // What is ignored may be broken.
    }
    if (catalog) format::safetensors::check_unlisted_part(root_ / part, index, *catalog);
    warnings_.push_back({"W_UNLISTED", (root_ / part).string(), kNoTensor,
                         fmt::format("is by its name a part of the set, but {} lists nothing in it: it is left out{}",
                                     format::safetensors::kIndexName,
                                     catalog ? fmt::format(", with {} tensors", catalog->tensors.size()) : "")});
  }
}

void SourceCheckpoint::build_catalog(Index ranks) {
  catalog_.ranks = ranks;
  std::vector<planner::SourceTensor>& tensors = catalog_.tensors;
  std::pmr::monotonic_buffer_resource memory;                         // of the map: many small pieces, freed together
  std::pmr::map<std::string_view, std::size_t> position_of(&memory);  // the names are those of the files
  const auto tensor_of = [&](auto hint, std::string_view name) {
    const auto entry = position_of.try_emplace(hint, name, tensors.size());
    if (entry->second == tensors.size()) tensors.emplace_back().name = name;
    return entry;
  };
  if (!files_.empty()) tensors.reserve(files_.front().tensors.size());
  for (Index rank = 0; rank < ranks; ++rank) {
    for (const std::size_t f : files_of_rank_[static_cast<std::size_t>(rank)]) {
      auto next = position_of.begin();  // files list their tensors by name, and most have the same ones
      for (const format::StoredTensor& stored : files_[f].tensors) {
        const auto entry = tensor_of(next, stored.name);
        next = std::next(entry);
        std::vector<planner::StoredRun>& runs = tensors[entry->second].stored;
        if (!runs.empty() && runs.back().last_rank == rank - 1 && runs.back().shape == stored.shape &&
            runs.back().dtype == stored.dtype && runs.back().global_shape == stored.global_shape) {
          runs.back().last_rank = rank;
        } else {
          runs.push_back({rank, rank, stored.shape, stored.dtype, stored.global_shape});
        }
      }
      for (const format::Refusal& refusal : files_[f].refusals)
        tensors[tensor_of(position_of.end(), refusal.name)->second].refusal =
            std::make_shared<const Issue>(refusal.issue);
    }
  }
  const auto is_before = [](const planner::SourceTensor& a, const planner::SourceTensor& b) { return a.name < b.name; };
  if (!std::is_sorted(tensors.begin(), tensors.end(), is_before)) std::sort(tensors.begin(), tensors.end(), is_before);
}

void SourceCheckpoint::agree_on_metadata() {
  std::set<std::string> differing;
  for (std::size_t f = 0; f < files_.size(); ++f) {
    if (f == 0) metadata_ = files_[0].metadata;
    std::erase_if(metadata_, [&](const auto& entry) {
      const auto it = files_[f].metadata.find(entry.first);
      const bool agrees = it != files_[f].metadata.end() && it->second == entry.second;
      if (!agrees) differing.insert(entry.first);
      return !agrees;
    });
    for (const auto& [key, value] : files_[f].metadata)
      if (metadata_.count(key) == 0) differing.insert(key);
  }
  const auto travels = [](const std::string& key) { return key != "format" && !key.starts_with("DCP_"); };
  std::erase_if(metadata_, [&](const auto& entry) { return !travels(entry.first); });
  for (const std::string& key : differing)
    if (travels(key))
      warnings_.push_back({"W_METADATA", root_.string(), kNoTensor,
                           fmt::format("the source files do not agree on the metadata '{}'; it is left out", key)});
}

SourceCheckpoint SourceCheckpoint::open(const fs::path& path, const plan::Side& side, const Formats& formats,
                                        bool allow_external, int threads, const Manifest* manifest,
                                        const Holdings& holdings) {
  if (const std::optional<std::string> digest = journal_plan_digest(path); digest && manifest == nullptr)
    throw Error(Issue{ErrorCode::kFormat, path.string(), kNoTensor,
                      fmt::format("is a target that a run with the plan digest {} has not finished; that run with "
                                  "--resume finishes it",
                                  *digest)});
  SourceCheckpoint source;
  source.collect(side, formats, path);
  source.refuse_missing(side, {allow_external, source.root_}, holdings);
  for (const std::string& name : source.names_) source.states_.push_back(state_of(source.root_ / name));
  source.read_catalogs({allow_external, source.root_}, threads);
  source.build_catalog(side.mesh.size());
  if (manifest != nullptr) add_records(*manifest, source.catalog_);
  source.agree_on_metadata();
  for (const format::FileCatalog& file : source.files_)
    for (const format::StoredTensor& tensor : file.tensors)
      source.tensor_bytes_ =
          checked_add(source.tensor_bytes_, checked_mul(checked_product(tensor.shape), size_bytes(tensor.dtype)));
  return source;
}

SourceCheckpoint SourceCheckpoint::of_report(const fs::path& report, const plan::Side& side, const Formats& formats) {
  Inspection inspection = read_inspection(report);
  if (inspection.ranks != side.mesh.size())
    throw Error(Exit::kCheckpoint,
                {Issue{ErrorCode::kMeshWorld, report.string(), kNoTensor,
                       fmt::format("tells of {} ranks, the source mesh has {}", inspection.ranks, side.mesh.size())}});
  SourceCheckpoint source;
  try {
    source.format_ = &formats.named(inspection.format);
  } catch (const Error& error) {
    throw Error(Issue{ErrorCode::kFormat, report.string(), kNoTensor, error.issues().front().message});
  }
  source.root_ = report.parent_path();
  source.tensor_bytes_ = inspection.bytes;
  source.catalog_.ranks = inspection.ranks;
  for (InspectedTensor& tensor : inspection.tensors) {
    planner::SourceTensor& entry = source.catalog_.tensors.emplace_back();
    entry.name = std::move(tensor.name);
    for (ShapeRun& run : tensor.stored)
      entry.stored.push_back({run.first_rank, run.last_rank, std::move(run.shape), tensor.dtype, tensor.global_shape});
  }
  return source;
}

std::vector<std::size_t> SourceCheckpoint::file_of_rank() const {
  std::vector<std::size_t> out;
  if (indexed_) return out;
  for (const std::vector<std::size_t>& files : files_of_rank_) out.push_back(files.front());
  return out;
}

SourceLocation SourceCheckpoint::locate(Index rank, const std::string& stored_name) const {
  for (const std::size_t f : files_of_rank_[static_cast<std::size_t>(rank)]) {
    const std::vector<format::StoredTensor>& tensors = files_[f].tensors;
    const auto it =
        std::lower_bound(tensors.begin(), tensors.end(), stored_name,
                         [](const format::StoredTensor& t, const std::string& name) { return t.name < name; });
    if (it != tensors.end() && it->name == stored_name) return {f, &*it};
  }
  internal_error(fmt::format("rank {} of the source does not have the tensor '{}'", rank, stored_name));
}

SourceReaders::SourceReaders(const SourceCheckpoint& source, bool allow_external)
    : readers_(kOpenFiles, [&source, allow_external](std::size_t file) {
        return std::shared_ptr<format::TensorReader>(
            source.format().open(source.root() / source.file_names()[file], {allow_external, source.root()}));
      }) {}

void SourceReaders::read(const SourceLocation& location, std::int64_t first_byte, std::span<std::byte> out) {
  readers_.get(location.file)->read(*location.tensor, first_byte, out);
}

void SourceReaders::read_file(std::size_t file, std::int64_t offset, std::span<std::byte> out) {
  readers_.get(file)->read_file(offset, out);
}

}  // namespace reshard::pipeline
