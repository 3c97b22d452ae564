#include "reshard/pipeline/source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/format/safetensors/index.hpp"
#include "reshard/pipeline/inspect_reader.hpp"
#include "reshard/pipeline/job.hpp"
#include "reshard/pipeline/journal.hpp"
#include "reshard/pipeline/nested_files.hpp"
#include "reshard/pipeline/rank_files.hpp"
#include "reshard/pipeline/records.hpp"
#include "reshard/pipeline/unsupported_files.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;

constexpr std::size_t kNamesInMessages = 5;

Issue missing(const fs::path& where, std::string message) {
  return {ErrorCode::kMissing, where.string(), "", std::move(message)};
}

/// All files below a directory, relative, as deep as `levels` names; sorted. Links are followed.
std::vector<std::string> list_files(const fs::path& root, std::size_t levels) {
  std::vector<std::string> out;
  const std::function<void(const fs::path&, std::size_t)> visit = [&](const fs::path& below, std::size_t left) {
    std::error_code error;
    fs::directory_iterator it(root / below, error);
    if (error) io_error(root / below, "list", error.value());
    for (; !error && it != fs::directory_iterator(); it.increment(error)) {
      const fs::path name = below / it->path().filename();
      std::error_code unknown;
      if (it->is_directory(unknown)) {
        if (left > 1) visit(name, left - 1);
      } else {
        out.push_back(name.string());
      }
    }
    if (error) io_error(root / below, "list", error.value());
  };
  visit("", levels);
  std::sort(out.begin(), out.end());
  return out;
}

std::string some_of(const std::vector<std::string>& names) {
  if (names.empty()) return "nothing";
  std::string out = fmt::format(
      "{}", fmt::join(names.begin(),
                      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesInMessages)), ", "));
  if (names.size() > kNamesInMessages) out += fmt::format(" and {} more", names.size() - kNamesInMessages);
  return out;
}

bool contains(const std::vector<std::string>& sorted, const std::string& name) {
  return std::binary_search(sorted.begin(), sorted.end(), name);
}

/// "tp=3" and, where the side has views, "tp=3, in view 'expert' ep=1 etp=1": what a rank would have of each tensor.
std::string coordinates_text(const plan::Side& side, Index rank) {
  const auto text = [&](const layout::Mesh& mesh) {
    std::vector<std::string> out;
    const std::vector<Index> coordinates = mesh.coordinates(rank);
    for (std::size_t a = 0; a < coordinates.size(); ++a)
      out.push_back(fmt::format("{}={}", mesh.axes()[a].name, coordinates[a]));
    return fmt::format("{}", fmt::join(out, " "));
  };
  std::string out = text(side.mesh);
  for (const plan::View& view : side.views) out += fmt::format(", in view '{}' {}", view.name, text(view.mesh));
  return out;
}

/// A way the directory can be read: a format and either a template or its index.
struct Candidate {
  const format::FileFormat* format = nullptr;
  std::string files;  ///< template
  bool indexed = false;
  std::string found;  ///< a file that speaks for it
};

/// What of the default names is there for one rank, or for several.
std::vector<Candidate> candidates(const std::vector<const format::FileFormat*>& formats, const plan::Side& side,
                                  const std::vector<std::string>& listing) {
  std::vector<Candidate> out;
  for (const format::FileFormat* format : formats) {
    const std::string ending(format->extension());
    if (side.mesh.size() == 1) {
      if (contains(listing, "model" + ending)) out.push_back({format, "model" + ending, false, "model" + ending});
      const std::string index(format::safetensors::kIndexName);
      if (format->name() == "safetensors" && contains(listing, index)) out.push_back({format, "", true, index});
    } else {
      const std::string files = default_files(side.mesh.size(), ending);
      const RankFiles names(files, side);
      for (const std::string& name : listing)
        if (names.fits(name)) {
          out.push_back({format, files, false, name});
          break;
        }
    }
  }
  return out;
}

}  // namespace

void SourceCheckpoint::collect(const plan::Side& side, const Formats& formats, const fs::path& path) {
  const auto ranks = static_cast<std::size_t>(side.mesh.size());
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw Error(missing(path, "there is no such directory or file"));

  std::vector<const format::FileFormat*> allowed;
  if (side.format) {
    allowed.push_back(&formats.named(*side.format));
  } else {
    for (const auto& format : formats.all()) allowed.push_back(format.get());
  }

  if (!fs::is_directory(status)) {
    if (ranks != 1)
      throw Error(
          Exit::kCheckpoint,
          {Issue{ErrorCode::kMeshWorld, path.string(), "",
                 fmt::format("is one file, but the checkpoint's mesh has {} ranks; give the directory", ranks)}});
    root_ = path.has_parent_path() ? path.parent_path() : fs::path(".");
    const std::string name = path.filename().string();
    if (name == format::safetensors::kIndexName) {
      indexed_ = true;
      format_ = &formats.named("safetensors");
    } else {
      for (const format::FileFormat* format : allowed)
        if (format_ == nullptr && format->recognises(path)) format_ = format;
      if (format_ == nullptr)
        throw Error(Issue{ErrorCode::kFormat, path.string(), "",
                          fmt::format("is no file of a known format ({})",
                                      side.format ? *side.format : std::string("hdf5, safetensors"))});
      template_ = name;
      names_ = {name};
      files_of_rank_ = {{0}};
    }
  } else {
    root_ = path;
    const std::size_t levels =
        side.files ? static_cast<std::size_t>(std::count(side.files->begin(), side.files->end(), '/')) + 1 : 1;
    const std::vector<std::string> listing = list_files(root_, levels);
    if (side.files) {
      template_ = *side.files;
      const RankFiles names(template_, side);
      for (const format::FileFormat* format : allowed)
        if (format_ == nullptr && (side.format || template_.ends_with(format->extension()))) format_ = format;
      for (const format::FileFormat* format : allowed)
        if (format_ == nullptr && contains(listing, names.of(0)) && format->recognises(root_ / names.of(0)))
          format_ = format;
      if (format_ == nullptr)
        throw Error(missing(root_ / names.of(0),
                            "there is no such file, or none of a known format; its name is that of `files`"));
    } else {
      const std::vector<Candidate> found = candidates(allowed, side, listing);
      if (found.empty()) {
        refuse_unsupported_files(root_, listing, formats);
        std::string expected;
        for (const format::FileFormat* format : allowed)
          expected +=
              fmt::format("{}{}", expected.empty() ? "" : " or ",
                          ranks == 1 ? fmt::format("model{}", format->extension())
                                     : RankFiles(default_files(side.mesh.size(), format->extension()), side).of(0));
        if (ranks == 1) expected += fmt::format(" or {}", format::safetensors::kIndexName);
        std::string remedy = nested_files_hint(root_, formats);
        if (remedy.empty()) remedy = "Other names: give `files`, or one file as the path";
        throw Error(missing(root_, fmt::format("holds no checkpoint of {} rank{}: expected {}; found {}. {}", ranks,
                                               ranks == 1 ? "" : "s", expected, some_of(listing), remedy)));
      }
      if (found.size() > 1)
        throw Error(Issue{ErrorCode::kFormat, root_.string(), "",
                          fmt::format("holds both {} and {}; say which with `format`, `files`, or one file as the path",
                                      found[0].found, found[1].found)});
      format_ = found.front().format;
      template_ = found.front().files;
      indexed_ = found.front().indexed;
    }
    if (!indexed_) {
      const RankFiles names(template_, side);
      std::map<std::string, std::size_t> numbers;
      for (std::size_t r = 0; r < ranks; ++r) {
        const auto [it, added] = numbers.try_emplace(names.of(static_cast<Index>(r)), names_.size());
        if (added) names_.push_back(it->first);
        files_of_rank_.push_back({it->second});
      }
      IssueList issues;
      std::vector<std::string> beyond;
      for (const std::string& name : listing)
        if (numbers.count(name) == 0 && names.fits(name)) beyond.push_back(name);
      for (std::size_t r = 0; r < ranks; ++r) {
        const std::string& name = names_[files_of_rank_[r].front()];
        if (contains(listing, name) || numbers.extract(name).empty()) continue;  // said of the first rank of a file
        std::string what = fs::is_directory(root_ / name, error) ? "is a directory, no file" : "there is no such file";
        if (ranks > 1)
          what += fmt::format("; it is that of rank {} of {} ({})", r, ranks,
                              coordinates_text(side, static_cast<Index>(r)));
        issues.add(missing(root_ / name, std::move(what)));
      }
      if (!beyond.empty())
        issues.add({ErrorCode::kMeshWorld, root_.string(), "",
                    fmt::format("holds {}, beyond the {} ranks of the checkpoint's mesh", some_of(beyond), ranks)});
      issues.throw_if_any(Exit::kCheckpoint);
    }
    ignored_ = listing;
  }

  if (indexed_) {
    const format::safetensors::Index index = format::safetensors::read_index(root_ / format::safetensors::kIndexName);
    format::safetensors::check_files(root_, index);
    files_of_rank_ = {{}};
    for (const auto& [name, tensors] : index.files()) {
      files_of_rank_[0].push_back(names_.size());
      names_.push_back(name);
    }
  }
  const std::set<std::string> used(names_.begin(), names_.end());
  std::erase_if(ignored_, [&](const std::string& name) {
    return used.count(name) != 0 || name == "reshard.json" || (indexed_ && name == format::safetensors::kIndexName);
  });
}

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
      continue;  // what is ignored may be broken
    }
    format::safetensors::check_unlisted_part(root_ / part, index, *catalog);
  }
}

void SourceCheckpoint::build_catalog(Index ranks) {
  std::map<std::string, planner::SourceTensor> tensors;
  for (Index rank = 0; rank < ranks; ++rank) {
    for (const std::size_t f : files_of_rank_[static_cast<std::size_t>(rank)]) {
      auto next = tensors.begin();  // files list their tensors by name, and most have the same ones
      for (const format::StoredTensor& stored : files_[f].tensors) {
        const auto entry = tensors.try_emplace(next, stored.name);
        next = std::next(entry);
        planner::SourceTensor& tensor = entry->second;
        std::vector<planner::StoredRun>& runs = tensor.stored;
        const planner::StoredRun run{rank, rank, stored.shape, stored.dtype, stored.global_shape};
        if (!runs.empty() && runs.back().last_rank == rank - 1 && runs.back().shape == run.shape &&
            runs.back().dtype == run.dtype && runs.back().global_shape == run.global_shape) {
          runs.back().last_rank = rank;
        } else {
          runs.push_back(run);
        }
      }
      for (const format::Refusal& refusal : files_[f].refusals) tensors[refusal.name].refusal = refusal.issue;
    }
  }
  catalog_.ranks = ranks;
  catalog_.tensors.reserve(tensors.size());
  while (!tensors.empty()) {
    auto node = tensors.extract(tensors.begin());
    node.mapped().name = std::move(node.key());
    catalog_.tensors.push_back(std::move(node.mapped()));
  }
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
      warnings_.push_back({"W_METADATA", root_.string(), "",
                           fmt::format("the source files do not agree on the metadata '{}'; it is left out", key)});
}

SourceCheckpoint SourceCheckpoint::open(const fs::path& path, const plan::Side& side, const Formats& formats,
                                        bool allow_external, int threads, const Manifest* manifest) {
  if (const std::optional<std::string> digest = journal_plan_digest(path); digest && manifest == nullptr)
    throw Error(Issue{ErrorCode::kFormat, path.string(), "",
                      fmt::format("is a target that a run with the plan digest {} has not finished; that run with "
                                  "--resume finishes it",
                                  *digest)});
  SourceCheckpoint source;
  source.collect(side, formats, path);
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
                {Issue{ErrorCode::kMeshWorld, report.string(), "",
                       fmt::format("tells of {} ranks, the source mesh has {}", inspection.ranks, side.mesh.size())}});
  SourceCheckpoint source;
  source.format_ = &formats.named(inspection.format);
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

}  // namespace reshard::pipeline
