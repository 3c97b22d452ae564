#include "reshard/pipeline/source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "reshard/base/directory.hpp"
#include "reshard/format/safetensors/index.hpp"
#include "reshard/pipeline/nested_files.hpp"
#include "reshard/pipeline/replacement.hpp"
#include "reshard/pipeline/unsupported_files.hpp"
#include "reshard/plan/rank_files.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;

constexpr std::size_t kNamesInMessages = 5;
/// Files read to tell what is in a missing one.
constexpr std::size_t kPeersRead = 64;

Issue missing(const fs::path& where, std::string message) {
  return {ErrorCode::kMissing, where.string(), kNoTensor, std::move(message)};
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
      const std::string files = plan::default_files(side.mesh.size(), ending);
      const plan::RankFiles names(files, side);
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
  const fs::file_status status = status_of(path);
  if (!fs::exists(status)) throw Error(missing(path, "there is no such directory or file" + moved_away_text(path)));

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
          {Issue{ErrorCode::kMeshWorld, path.string(), kNoTensor,
                 fmt::format("is one file, but the checkpoint's mesh has {} ranks; give the directory", ranks)}});
    root_ = path.has_parent_path() ? path.parent_path() : fs::path(".");
    const std::string name = path.filename().string();
    if (name == format::safetensors::kIndexName) {
      indexed_ = true;
      format_ = &formats.named("safetensors");
    } else {
      for (const format::FileFormat* format : allowed)
        if (format_ == nullptr && format->recognises(path)) format_ = format;
      // What is wrong with a file that should be of a format is told by its reader.
      for (const format::FileFormat* format : allowed)
        if (format_ == nullptr && (side.format || name.ends_with(format->extension()))) format_ = format;
      if (format_ == nullptr)
        throw Error(
            Issue{ErrorCode::kFormat, path.string(), kNoTensor, "is no file of a known format (hdf5, safetensors)"});
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
      const plan::RankFiles names(template_, side);
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
          expected += fmt::format(
              "{}{}", expected.empty() ? "" : " or ",
              ranks == 1 ? fmt::format("model{}", format->extension())
                         : plan::RankFiles(plan::default_files(side.mesh.size(), format->extension()), side).of(0));
        if (ranks == 1) expected += fmt::format(" or {}", format::safetensors::kIndexName);
        std::string remedy = nested_files_hint(root_, formats);
        if (remedy.empty()) remedy = "Other names: give `files`, or one file as the path";
        throw Error(missing(root_, fmt::format("holds no checkpoint of {} rank{}: expected {}; found {}. {}", ranks,
                                               ranks == 1 ? "" : "s", expected, some_of(listing), remedy)));
      }
      if (found.size() > 1)
        throw Error(Issue{ErrorCode::kFormat, root_.string(), kNoTensor,
                          fmt::format("holds both {} and {}; say which with `format`, `files`, or one file as the path",
                                      found[0].found, found[1].found)});
      format_ = found.front().format;
      template_ = found.front().files;
      indexed_ = found.front().indexed;
    }
    if (!indexed_) {
      const plan::RankFiles names(template_, side);
      std::map<std::string, std::size_t> numbers;
      for (std::size_t r = 0; r < ranks; ++r) {
        const auto [it, added] = numbers.try_emplace(names.of(static_cast<Index>(r)), names_.size());
        if (added) names_.push_back(it->first);
        files_of_rank_.push_back({it->second});
      }
      for (const std::string& name : listing)
        if (numbers.count(name) == 0 && names.fits(name)) beyond_.push_back(name);
      for (std::size_t r = 0; r < ranks; ++r) {
        const std::size_t file = files_of_rank_[r].front();
        if (contains(listing, names_[file]) || numbers.extract(names_[file]).empty()) continue;  // its first rank told
        missing_.push_back(
            {file, static_cast<Index>(r),
             fs::is_directory(root_ / names_[file], error) ? "is a directory, no file" : "there is no such file"});
      }
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

void SourceCheckpoint::refuse_missing(const plan::Side& side, const format::ReadOptions& options,
                                      const Holdings& holdings) {
  if (holdings && !missing_.empty()) {
    files_.resize(names_.size());
    std::vector<bool> is_missing(names_.size());
    for (const MissingFile& file : missing_) is_missing[file.file] = true;
    std::size_t left = kPeersRead;
    for (std::size_t f = 0; f < names_.size() && left > 0; ++f) {
      if (is_missing[f]) continue;
      --left;
      try {
        files_[f] = format_->read_catalog(root_ / names_[f], options);
      } catch (const Error&) {
        continue;  // what is wrong with it is said once no file is missing
      }
    }
    build_catalog(side.mesh.size());
  }
  IssueList issues;
  for (const MissingFile& file : missing_) {
    std::string what = file.what;
    if (side.mesh.size() > 1)
      what += fmt::format("; it is that of rank {} of {} ({})", file.rank, side.mesh.size(),
                          coordinates_text(side, file.rank));
    const std::string held = holdings ? holdings(file.rank, catalog_) : "";
    if (!held.empty()) what += fmt::format(", which {}", held);
    issues.add(missing(root_ / names_[file.file], std::move(what)));
  }
  if (!beyond_.empty())
    issues.add(
        {ErrorCode::kMeshWorld, root_.string(), kNoTensor,
         fmt::format("holds {}, beyond the {} ranks of the checkpoint's mesh", some_of(beyond_), side.mesh.size())});
  issues.throw_if_any(Exit::kCheckpoint);
}

void SourceCheckpoint::check_unchanged() const {
  IssueList issues;
  for (std::size_t f = 0; f < states_.size(); ++f)
    if (const fs::path path = root_ / names_[f]; state_of(path) != states_[f])
      issues.add({ErrorCode::kDigest, path.string(), kNoTensor,
                  "has changed while it was read, and what was read may be a mixture: nothing is published; run again "
                  "with --overwrite once nobody writes to the source"});
  issues.throw_if_any(Exit::kCheckpoint);
}

void SourceCheckpoint::check_file_list(const plan::Side& side, const Manifest& manifest) const {
  IssueList issues;
  for (const std::string& name : names_) {
    const auto listed = manifest.file_list.find(name);
    if (listed == manifest.file_list.end()) {
      // A plan may name files otherwise, as after they were renamed.
      if (side.files == manifest.side.files)
        issues.add({ErrorCode::kFormat, manifest.path.string(), kNoTensor,
                    fmt::format("'file_list' lacks {}, which its mesh and 'files' call for", name)});
      continue;
    }
    const std::int64_t bytes = File::open_to_read(root_ / name).size();
    if (bytes != listed->second.bytes)
      issues.add({ErrorCode::kDigest, (root_ / name).string(), kNoTensor,
                  fmt::format("has {} bytes, {} says {}: the file is not the one that was written", bytes,
                              manifest.path.filename().string(), listed->second.bytes)});
  }
  issues.throw_if_any(Exit::kCheckpoint);
}

}  // namespace reshard::pipeline
