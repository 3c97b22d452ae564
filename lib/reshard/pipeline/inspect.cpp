#include "reshard/pipeline/inspect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "reshard/base/directory.hpp"
#include "reshard/format/safetensors/index.hpp"
#include "reshard/pipeline/nested_files.hpp"
#include "reshard/pipeline/source.hpp"
#include "reshard/pipeline/target.hpp"
#include "reshard/pipeline/unsupported_files.hpp"
#include "reshard/plan/file_template.hpp"
#include "reshard/plan/rank_files.hpp"
#include "reshard/plan/side.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;

constexpr std::size_t kNamesInMessages = 5;
constexpr Index kSeveralRanks = 2;  // any number that is not 1 has the template of rank files

/// Sorted; with a '/' behind the names of directories, which no file is called.
std::vector<std::string> names_in(const fs::path& directory) {
  std::error_code error;
  std::vector<std::string> out;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    out.push_back(entry->path().filename().string() + (entry->is_directory(unknown) ? "/" : ""));
  }
  if (error) io_error(directory, "list", error.value());
  std::sort(out.begin(), out.end());
  return out;
}

std::string some_of(const std::vector<std::string>& names, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesInMessages); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  if (count > kNamesInMessages) out += fmt::format(" and {} more", count - kNamesInMessages);
  return out.empty() ? "nothing" : out;
}

/// A checkpoint that the file names speak of.
struct Found {
  std::string format;
  std::optional<std::string> files;  // nothing: an indexed set
  std::vector<Index> ranks;          // that have a file, ascending
  std::string first;                 // a file of it
};

std::vector<Found> found_in(const std::vector<std::string>& names, const Formats& formats) {
  std::vector<Found> out;
  const auto there = [&](const std::string& name) { return std::binary_search(names.begin(), names.end(), name); };
  for (const auto& format : formats.all()) {
    const std::string single = plan::default_files(1, format->extension());
    if (there(single)) out.push_back({std::string(format->name()), single, {0}, single});
    const std::string index(format::safetensors::kIndexName);
    if (format->name() == "safetensors" && there(index)) out.push_back({"safetensors", std::nullopt, {0}, index});
    const plan::FileTemplate by_rank(plan::default_files(kSeveralRanks, format->extension()), {});
    Found ranks{std::string(format->name()), by_rank.text(), {}, ""};
    for (const std::string& name : names) {
      const std::optional<plan::FileFields> fields = by_rank.match(name);
      if (!fields) continue;
      ranks.ranks.push_back(fields->at("rank"));
      if (ranks.first.empty()) ranks.first = name;
    }
    std::sort(ranks.ranks.begin(), ranks.ranks.end());
    if (!ranks.ranks.empty()) out.push_back(std::move(ranks));
  }
  return out;
}

Error no_checkpoint(const fs::path& directory, const std::vector<std::string>& names, const Formats& formats) {
  std::string expected;
  for (const auto& format : formats.all())
    expected += fmt::format("model{0}, rank-00000{0} and so on, ", format->extension());
  std::string remedy = nested_files_hint(directory, formats);
  if (remedy.empty()) remedy = "Give one file as the path, or rename the files (a plan reads other names with `files`)";
  return Error(Issue{ErrorCode::kMissing, directory.string(), kNoTensor,
                     fmt::format("holds no checkpoint by name: expected {}or {}; found {}. {}", expected,
                                 format::safetensors::kIndexName, some_of(names, names.size()), remedy)});
}

/// Ranks 0 .. n-1 are all there.
void check_gapless(const fs::path& directory, const Found& found) {
  const plan::FileTemplate files(*found.files, {});
  std::vector<std::string> missing;
  Index next = 0;
  for (const Index rank : found.ranks) {
    for (; next < rank && missing.size() < kNamesInMessages; ++next) missing.push_back(files.expand({{"rank", next}}));
    next = rank + 1;
  }
  if (missing.empty()) return;
  const Index last = found.ranks.back();
  const auto count = static_cast<std::size_t>(last) + 1 - found.ranks.size();
  throw Error(
      Issue{ErrorCode::kMissing, directory.string(), kNoTensor,
            fmt::format("{} missing, though {} is there: rank numbers have no gaps",
                        some_of(missing, count) + (count == 1 ? " is" : " are"), files.expand({{"rank", last}}))});
}

/// Axes as all files record them, where they fit the ranks.
std::optional<std::vector<std::string>> axes_of_files(const SourceCheckpoint& source, std::vector<Warning>& warnings) {
  if (source.files().empty()) return std::nullopt;
  const std::optional<std::vector<std::string>>& axes = source.files().front().axes;
  if (!axes) return std::nullopt;
  for (const format::FileCatalog& file : source.files())
    if (file.axes != axes) {
      warnings.push_back({"W_AXES", source.root().string(), kNoTensor, "the files do not agree on their mesh"});
      return std::nullopt;
    }
  Value::Array list;
  for (const std::string& axis : *axes) list.emplace_back(axis);
  Value::Object side;
  side.push_back({"axes", Value(std::move(list)), {}});
  std::string found;
  try {
    const Index ranks = plan::read_side(Value(std::move(side)), plan::Role::kSource, "").mesh.size();
    if (ranks == source.catalog().ranks) return axes;
    found = fmt::format("of {} ranks", ranks);
  } catch (const Error&) {
    found = "that is none";
  }
  warnings.push_back(
      {"W_AXES", source.root().string(), kNoTensor,
       fmt::format("the files record a mesh {}, but there are {} ranks", found, source.catalog().ranks)});
  return std::nullopt;
}

InspectedTensor inspected(const planner::SourceTensor& tensor) {
  InspectedTensor out;
  out.name = tensor.name;
  out.dtype = tensor.stored.front().dtype;
  out.global_shape = tensor.stored.front().global_shape;
  for (const planner::StoredRun& run : tensor.stored) {
    if (run.global_shape != out.global_shape) out.global_shape = std::nullopt;
    if (!out.stored.empty() && out.stored.back().last_rank == run.first_rank - 1 &&
        out.stored.back().shape == run.shape) {
      out.stored.back().last_rank = run.last_rank;
    } else {
      out.stored.push_back({run.shape, run.first_rank, run.last_rank});
    }
  }
  return out;
}

/// Ranks that store another dtype than the lowest one.
std::optional<Warning> dtype_warning(const planner::SourceTensor& tensor) {
  const planner::StoredRun& first = tensor.stored.front();
  for (const planner::StoredRun& run : tensor.stored)
    if (run.dtype != first.dtype)
      return Warning{"W_DTYPE", "", tensor.name,
                     fmt::format("rank {} stores {}, rank {} {}", first.first_rank, name(first.dtype), run.first_rank,
                                 name(run.dtype))};
  return std::nullopt;
}

}  // namespace

plan::Side side_by_names(const fs::path& directory, const Formats& formats) {
  const std::vector<std::string> names = names_in(directory);
  const std::vector<Found> found = found_in(names, formats);
  if (found.empty()) {
    refuse_unsupported_files(directory, names, formats);
    throw no_checkpoint(directory, names, formats);
  }
  if (found.size() > 1)
    throw Error(Issue{ErrorCode::kFormat, directory.string(), kNoTensor,
                      fmt::format("holds both {} and {}; give one file as the path, or keep one of them",
                                  found[0].first, found[1].first)});
  plan::Side side;
  side.format = found.front().format;
  side.files = found.front().files;
  if (!side.files) return side;
  if (side.files->find('{') != std::string::npos) check_gapless(directory, found.front());
  side.mesh = layout::Mesh({{"shard", static_cast<Index>(found.front().ranks.size())}});
  return side;
}

Inspection inspect(const fs::path& path, const Formats& formats, bool allow_external) {
  const bool directory = fs::is_directory(status_of(path));
  const std::optional<Manifest> manifest = find_manifest(path);
  plan::Side side;
  if (manifest) {
    side = manifest->side;
  } else if (directory) {
    side = side_by_names(path, formats);
  }
  const SourceCheckpoint source =
      SourceCheckpoint::open(path, side, formats, allow_external, 1, manifest ? &*manifest : nullptr);

  Inspection out;
  out.format = source.format().name();
  out.ranks = source.catalog().ranks;
  if (!source.files_template().empty()) out.files = source.files_template();
  out.bytes = source.tensor_bytes();
  out.ignored_files = source.ignored();
  out.warnings = source.warnings();
  if (manifest) {
    out.axes = axes_text(side.mesh);
  } else if (directory) {
    // A file on its own may be one of several ranks: its mesh is not what is inspected.
    out.axes = axes_of_files(source, out.warnings);
  }
  for (const planner::SourceTensor& tensor : source.catalog().tensors) {
    if (tensor.refusal)
      out.warnings.push_back({"W_NOT_TENSOR", tensor.refusal->where, tensor.name, tensor.refusal->message});
    if (tensor.stored.empty()) continue;
    out.tensors.push_back(inspected(tensor));
    if (const std::optional<Warning> warning = dtype_warning(tensor)) out.warnings.push_back(*warning);
  }
  return out;
}

}  // namespace reshard::pipeline
