#include "reshard/pipeline/target_survey.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "reshard/format/safetensors/index.hpp"
#include "reshard/plan/rank_files.hpp"

namespace reshard::pipeline {
namespace {

using format::StoredTensor;

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string tensor_text(Dtype dtype, const Shape& shape) {
  return fmt::format("{} {}", name(dtype), shape_text(shape));
}

std::string bytes_text(std::int64_t bytes) {
  return fmt::format("{} bytes", bytes);
}

}  // namespace

TargetSurvey::TargetSurvey(const Manifest& manifest, const fs::path& directory, const Formats& formats,
                           bool allow_external)
    : manifest_(manifest),
      directory_(directory),
      format_(formats.named(*manifest.side.format)),
      allow_external_(allow_external),
      manifest_layouts_(manifest) {
  lay_out();
  list_files();
  for (File& file : files_) look_at(file);
  read_headers();
}

void TargetSurvey::add(ErrorCode code, const File& file, std::optional<std::string> tensor, std::string expected,
                       std::string found) {
  problems_.push_back({code, file.name, std::move(tensor), std::move(expected), std::move(found)});
}

void TargetSurvey::refuse(const std::optional<std::string>& tensor, std::string message) const {
  throw Error(Issue{ErrorCode::kFormat, manifest_.path.string(), tensor, std::move(message)});
}

void TargetSurvey::lay_out() {
  for (const auto& [name, entry] : manifest_.tensors) {
    try {
      by_stored_name_[entry.stored].push_back(tensors_.size());
      tensors_.push_back({&name, &entry, manifest_layouts_.number_of(entry)});
    } catch (const Error& error) {
      if (error.issues().front().code == ErrorCode::kInternal) throw;
      refuse(name, fmt::format("has the shape {}, which its placement {} cannot cut: {}", shape_text(entry.shape),
                               entry.placement, error.issues().front().message));
    }
  }
  for (std::size_t l = 0; l < manifest_layouts_.size(); ++l) {
    const layout::TensorLayout& layout = manifest_layouts_[l].layout;
    layouts_.push_back({&layout, HolderSets(layout), {}});
    for (Index rank = 0; rank < layout.ranks; ++rank) {
      if (!layout.is_present(rank)) continue;
      const std::vector<HolderSets::Set> sets = layouts_.back().sets.sets_of(rank);
      layouts_.back().all_sets.insert(sets.begin(), sets.end());
    }
  }
}

bool TargetSurvey::are_replicas(Index a, Index b) const {
  return std::all_of(layouts_.begin(), layouts_.end(), [&](const Layout& entry) {
    const layout::TensorLayout& layout = *entry.layout;
    if (layout.is_present(a) != layout.is_present(b)) return false;
    return !layout.is_present(a) ||
           std::all_of(layout.dims.begin(), layout.dims.end(),
                       [&](const layout::DimLayout& dim) { return dim.part_of(a) == dim.part_of(b); });
  });
}

void TargetSurvey::list_files() {
  std::map<std::string, Index> ranks;
  if (manifest_.side.files) {
    const plan::RankFiles names(*manifest_.side.files, manifest_.side);
    for (Index rank = 0; rank < manifest_.side.mesh.size(); ++rank) {
      const auto [known, added] = ranks.try_emplace(names.of(rank), rank);
      if (!added && !are_replicas(known->second, rank))
        refuse({}, fmt::format("puts ranks {} and {} into {}, but they do not store the same", known->second, rank,
                               known->first));
      if (!manifest_.file_list.contains(known->first))
        refuse({}, fmt::format("has no '{}' in 'file_list', the file of rank {}", known->first, rank));
    }
  } else {
    for (const auto& [name, entry] : manifest_.file_list)
      if (name.ends_with(format_.extension())) ranks.try_emplace(name, 0);
    if (!manifest_.file_list.contains(std::string(format::safetensors::kIndexName)))
      refuse({}, fmt::format("has no '{}' in 'file_list', though it speaks of a numbered set",
                             format::safetensors::kIndexName));
  }
  for (const auto& [name, entry] : manifest_.file_list) {
    files_.push_back({name, entry, {}, false, false, {}, {}});
    if (const auto rank = ranks.find(name); rank != ranks.end()) files_.back().rank = rank->second;
  }
}

void TargetSurvey::look_at(File& file) {
  try {
    const std::int64_t bytes = reshard::File::open_to_read(path(file)).size();
    file.is_whole = bytes == file.expected.bytes;
    if (!file.is_whole) add(ErrorCode::kDigest, file, kNoTensor, bytes_text(file.expected.bytes), bytes_text(bytes));
  } catch (const Error& error) {
    if (error.exit() != Exit::kCheckpoint) throw;
    const Issue& issue = error.issues().front();
    add(issue.code, file, kNoTensor, bytes_text(file.expected.bytes),
        issue.code == ErrorCode::kMissing ? "no file" : issue.message);
  }
}

void TargetSurvey::read_headers() {
  std::vector<bool> found(tensors_.size(), false);
  bool all_read = true;
  for (std::size_t f = 0; f < files_.size(); ++f) {
    File& file = files_[f];
    if (!file.rank) continue;
    if (file.is_whole) read_header(f, found);
    all_read = all_read && file.is_read;
  }
  if (manifest_.side.files) return;
  // Of a numbered set it is the index that says which file a tensor is in.
  if (all_read)
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      if (!found[t])
        problems_.push_back({ErrorCode::kMissing, "", *tensors_[t].name,
                             tensor_text(tensors_[t].entry->dtype, tensors_[t].entry->shape), "no tensor"});
  check_index();
}

void TargetSurvey::read_header(std::size_t f, std::vector<bool>& found_in_set) {
  File& file = files_[f];
  format::FileCatalog catalog;
  try {
    catalog = format_.read_catalog(path(file), read_options());
  } catch (const Error& error) {
    if (error.exit() != Exit::kCheckpoint) throw;
    for (const Issue& issue : error.issues())
      add(issue.code, file, issue.tensor, fmt::format("a file of format {}", format_.name()), issue.message);
    return;
  }
  file.is_read = true;
  file.tensors = std::move(catalog.tensors);
  std::vector<bool> found(tensors_.size(), false);
  for (const StoredTensor& stored : file.tensors) {
    const std::optional<std::size_t> tensor = tensor_of(stored.name, *file.rank);
    if (!tensor || found_in_set[*tensor]) {
      add(ErrorCode::kDifferent, file, stored.name, "no tensor", tensor_text(stored.dtype, stored.shape));
      continue;
    }
    found[*tensor] = true;
    if (!manifest_.side.files) found_in_set[*tensor] = true;
    if (agrees(file, *tensor, stored)) add_shard(f, *tensor, stored);
  }
  if (manifest_.side.files) add_missing(file, found, catalog.refusals);
  std::sort(file.shards.begin(), file.shards.end(),
            [&](std::size_t a, std::size_t b) { return *shards_[a].stored->offset < *shards_[b].stored->offset; });
  // No file of ours has two tensors in one place.
  std::int64_t end = 0;
  std::erase_if(file.shards, [&](std::size_t s) {
    const bool overlaps = *shards_[s].stored->offset < end;
    if (overlaps) scattered_.push_back(s);
    end = std::max(end, *shards_[s].stored->offset + shards_[s].bytes);
    return overlaps;
  });
}

std::optional<std::size_t> TargetSurvey::tensor_of(const std::string& stored_name, Index rank) const {
  const auto entries = by_stored_name_.find(stored_name);
  if (entries == by_stored_name_.end()) return std::nullopt;
  for (const std::size_t t : entries->second)
    if (layouts_[tensors_[t].layout].layout->is_present(rank)) return t;
  return std::nullopt;
}

bool TargetSurvey::agrees(const File& file, std::size_t t, const StoredTensor& stored) {
  const Tensor& tensor = tensors_[t];
  const Shape expected = layouts_[tensor.layout].layout->stored_shape(*file.rank);
  if (stored.dtype != tensor.entry->dtype)
    add(ErrorCode::kDtype, file, *tensor.name, std::string(name(tensor.entry->dtype)), std::string(name(stored.dtype)));
  if (stored.shape != expected)
    add(ErrorCode::kShape, file, *tensor.name, shape_text(expected), shape_text(stored.shape));
  if (stored.global_shape && stored.global_shape != tensor.entry->shape)
    add(ErrorCode::kShape, file, *tensor.name, "of " + shape_text(tensor.entry->shape),
        "of " + shape_text(*stored.global_shape));
  return stored.dtype == tensor.entry->dtype && stored.shape == expected;
}

void TargetSurvey::add_shard(std::size_t f, std::size_t t, const StoredTensor& stored) {
  File& file = files_[f];
  const std::int64_t bytes = format::payload_bytes(stored.dtype, stored.shape);
  const std::size_t shard = shards_.size();
  shards_.push_back({t, f, &stored, bytes, registers_});
  registers_ += layouts_[tensors_[t].layout].sets.sets_of(*file.rank).size();
  if (bytes == 0) return;
  const bool in_one_piece = stored.offset && !stored.big_endian && *stored.offset <= file.expected.bytes - bytes;
  (in_one_piece ? file.shards : scattered_).push_back(shard);
}

void TargetSurvey::add_missing(const File& file, const std::vector<bool>& found,
                               const std::vector<format::Refusal>& refusals) {
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const layout::TensorLayout& layout = *layouts_[tensors_[t].layout].layout;
    if (found[t] || !layout.is_present(*file.rank)) continue;
    const auto refusal = std::find_if(refusals.begin(), refusals.end(), [&](const format::Refusal& refused) {
      return refused.name == tensors_[t].entry->stored;
    });
    add(ErrorCode::kMissing, file, *tensors_[t].name,
        tensor_text(tensors_[t].entry->dtype, layout.stored_shape(*file.rank)),
        refusal == refusals.end() ? "no tensor" : refusal->issue.message);
  }
}

void TargetSurvey::check_index() {
  const auto file = std::find_if(files_.begin(), files_.end(), [](const File& candidate) {
    return candidate.name == format::safetensors::kIndexName;
  });
  if (!file->is_whole) return;
  format::safetensors::Index index;
  try {
    index = format::safetensors::read_index(path(*file));
  } catch (const Error& error) {
    if (error.exit() != Exit::kCheckpoint) throw;
    add(error.issues().front().code, *file, kNoTensor, "an index", error.issues().front().message);
    return;
  }
  // Of what the files of the one rank hold: with padding.
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tensors_)
    bytes = checked_add(bytes, checked_mul(checked_product(layouts_[tensor.layout].layout->stored_shape(0)),
                                           size_bytes(tensor.entry->dtype)));
  if (index.total_size != bytes)
    add(ErrorCode::kDifferent, *file, kNoTensor, fmt::format("a total_size of {}", bytes),
        index.total_size ? fmt::format("{}", *index.total_size) : "none");
  for (const Shard& shard : shards_) {
    const auto mapped = index.weight_map.find(shard.stored->name);
    const std::string found = mapped == index.weight_map.end() ? "no entry" : mapped->second;
    if (found != files_[shard.file].name)
      add(ErrorCode::kDifferent, *file, shard.stored->name, files_[shard.file].name, found);
  }
  for (const auto& [tensor, mapped] : index.weight_map)
    if (!by_stored_name_.contains(tensor)) add(ErrorCode::kDifferent, *file, tensor, "no entry", mapped);
}

}  // namespace reshard::pipeline
