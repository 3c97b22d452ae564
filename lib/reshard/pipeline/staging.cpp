#include "reshard/pipeline/staging.hpp"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>
#include <system_error>

#include "reshard/base/directory.hpp"
#include "reshard/base/error.hpp"
#include "reshard/pipeline/finished_target.hpp"
#include "reshard/pipeline/journal.hpp"
#include "reshard/pipeline/manifest_reader.hpp"
#include "reshard/pipeline/replacement.hpp"

namespace reshard::pipeline {
namespace {

[[noreturn]] void refuse(ErrorCode code, const fs::path& path, std::string message) {
  throw Error(Issue{code, path.string(), kNoTensor, std::move(message)});
}

/// TARGET.partial, TARGET.old
fs::path beside(fs::path target, const char* ending) {
  target += ending;
  return target;
}

/// Refuses a file that is, or lies in, one of the directories that a run replaces; `other`: what to choose anew.
void refuse_inside(const fs::path& file, const std::vector<fs::path>& ours, std::string_view other) {
  const fs::path place = place_of(file);
  for (const fs::path& directory : ours)
    if (is_inside(place, directory))
      refuse(ErrorCode::kUsage, file,
             fmt::format("lies in {}, which a run replaces; choose another {}", directory.string(), other));
}

constexpr std::string_view kDiscard = "--overwrite without --resume discards it";

[[noreturn]] void refuse_plan(const fs::path& path, std::string_view what, const std::string& found,
                              const std::string& ours, std::string_view remedy) {
  refuse(ErrorCode::kExists, path,
         fmt::format("{} of another plan or source (plan digest {}; this run's is {}); {}", what, found, ours, remedy));
}

/// Never over something that has appeared meanwhile: rename(2) replaces an empty directory only.
void put_in_place(const fs::path& from, const fs::path& target) {
  if (::rename(from.c_str(), target.c_str()) == 0) return;
  if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
    refuse(ErrorCode::kExists, target,
           fmt::format("has appeared during the run; the new target is complete at {}: move what has appeared away and "
                       "run again with --resume, or replace it with --resume --overwrite",
                       from.string()));
  io_error(target, fmt::format("rename {} to it", from.string()), errno);
}

/// Refuses what `is_ours` does not know of the paths relative to a directory: `what` it is, and what to do.
void check_no_strays(const fs::path& directory, std::string_view what, const Keeps& is_ours) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (!is_ours(it->path().lexically_relative(directory), it->symlink_status().type()))
      refuse(ErrorCode::kExists, it->path(), std::string(what));
  if (error) io_error(directory, "list", error.value());
}

/// Of what lies in a staging directory, by its path there.
bool is_journal(const fs::path& path, fs::file_type type) {
  return type == fs::file_type::regular && !path.has_parent_path() && is_staging_name(path.string());
}

/// A file that no run can have left in a directory whose journal is not there, or is none; empty where there is none.
/// The journal comes whole and before any other file: what a kill leaves before it is folders and its forerunners.
std::string foreign_file(const fs::path& directory) {
  std::string out;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; out.empty() && !error && it != end;
       it.increment(error)) {
    const fs::path path = it->path().lexically_relative(directory);
    const fs::file_type type = it->symlink_status().type();
    if (type != fs::file_type::directory && (!is_journal(path, type) || path == kJournalName)) out = path;
  }
  if (error) io_error(directory, "list", error.value());
  return out;
}

/// The folders of files, as paths relative to the staging directory; one before those in it.
std::set<fs::path> folders_of(const std::vector<std::string>& files) {
  std::set<fs::path> out;
  for (const std::string& file : files)
    for (fs::path folder = fs::path(file).parent_path(); !folder.empty(); folder = folder.parent_path())
      out.insert(folder);
  return out;
}

/// Refuses what the manifest does not list: `what` it is, and what to do.
void check_all_listed(const fs::path& directory, const std::map<std::string, ManifestFile>& listed,
                      std::string_view what) {
  std::vector<std::string> names;
  for (const auto& [name, file] : listed) names.push_back(name);
  const std::set<fs::path> folders = folders_of(names);
  check_no_strays(directory, what, [&](const fs::path& path, fs::file_type type) {
    if (type == fs::file_type::directory) return folders.contains(path);
    return path == kManifestName || listed.contains(path.string());
  });
}

/// A directory that has all that its manifest lists, and no other file. `again`: the options that go on from here.
void check_complete(const fs::path& directory, const std::map<std::string, ManifestFile>& listed,
                    std::string_view again) {
  check_all_listed(directory, listed,
                   fmt::format("was not made by this run, but would become part of the target: nothing is published; "
                               "move it away and run again with {}",
                               again));
  if (const std::string wrong = wrong_size(listed, directory); !wrong.empty())
    refuse(ErrorCode::kMissing, directory,
           fmt::format("is not as it was written: {}; nothing is published; --overwrite without --resume begins again",
                       wrong));
}

}  // namespace

Staging::Staging(const fs::path& source, const fs::path& target, StagingOptions options) : options_(options) {
  if (target.empty()) refuse(ErrorCode::kUsage, target, "the target has no name");
  if (fs::is_symlink(own_status_of(target)) && !fs::exists(status_of(target)))
    refuse(ErrorCode::kUsage, target, "is a link to nothing");
  target_ = resolved(target);
  if (!target_.has_relative_path()) refuse(ErrorCode::kUsage, target_, "the target has no folder above it");
  directory_ = beside(target_, ".partial");
  if (!fs::is_directory(status_of(target_.parent_path())))
    refuse(ErrorCode::kUsage, target_.parent_path(), "the folder above the target does not exist");
  const fs::path from = resolved(source);
  if (is_inside(from, target_) || is_inside(target_, from))
    refuse(ErrorCode::kUsage, target_,
           fmt::format("source and target overlap: the source is {}; choose a target beside it", from.string()));
  if (is_inside(from, directory_))
    refuse(ErrorCode::kUsage, directory_, "the source lies in the target's staging directory");
  replaced_ = replaced_by_renames(target_);
  if (!replaced_.empty() && is_inside(from, replaced_))
    refuse(ErrorCode::kUsage, replaced_,
           fmt::format("the source lies in the old target of a run that was ended while it replaced {}: that run with "
                       "--resume --overwrite removes it; move it away to keep it",
                       target_.string()));

  const fs::file_status status = status_of(target_);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) refuse(ErrorCode::kExists, target_, "exists and is no directory");
  if (device_of(target_) != device_of(target_.parent_path()))
    refuse(ErrorCode::kUsage, target_,
           "is a mount point: a target is written beside its place and renamed to it, which needs one file system; "
           "choose a folder inside it");
  check_target();
}

void Staging::check_target() {
  std::error_code error;
  target_exists_ = fs::exists(status_of(target_)) && !fs::is_empty(target_, error);
  if (error) io_error(target_, "list", error.value());
  if (target_exists_ && !options_.overwrite && !options_.resume)
    refuse(ErrorCode::kExists, target_,
           "exists and is not empty; --overwrite replaces it when the new one is complete");
}

Start Staging::claim(const std::string& plan_digest) {
  settle(target_, directory_);
  check_target();
  const fs::file_status status = own_status_of(directory_);
  if (fs::exists(status)) {
    if (!fs::is_directory(status)) refuse(ErrorCode::kExists, directory_, "is in the way: it is no staging directory");
    lock_.emplace(directory_, LOCK_EX);
    const std::optional<std::string> staged_digest = finished_digest(directory_);
    start_ = staged_digest ? claim_complete(plan_digest, *staged_digest) : claim_unfinished(plan_digest);
  } else {
    start_ = claim_target(plan_digest);
  }
  return start_;
}

Start Staging::claim_target(const std::string& plan_digest) const {
  if (!target_exists_ || !options_.resume) return Start::kNothing;
  const std::optional<std::string> digest = finished_digest(target_);
  if (digest == plan_digest) {
    const std::string wrong = wrong_size(read_manifest(target_ / kManifestName).file_list, target_);
    if (wrong.empty()) return Start::kFinished;
    if (!options_.overwrite)
      refuse(ErrorCode::kExists, target_,
             fmt::format("is a finished target by its manifest, but {}; --overwrite writes it again", wrong));
  }
  if (options_.overwrite) return Start::kNothing;
  if (digest) refuse_plan(target_, "is a finished target", *digest, plan_digest, "--overwrite replaces it");
  refuse(ErrorCode::kExists, target_, "exists, is not empty and is no finished target; --overwrite replaces it");
}

Start Staging::claim_complete(const std::string& plan_digest, const std::string& staged_digest) {
  const std::optional<std::string> digest = target_exists_ ? finished_digest(target_) : std::nullopt;
  // Beside a finished target this one is the old one, left by a kill during the exchange; of two of this plan the one
  // that was finished last is the new one.
  const bool is_newer =
      state_of(directory_ / kManifestName).modified_ns > state_of(target_ / kManifestName).modified_ns;
  if (digest && (staged_digest != plan_digest || (*digest == plan_digest && !is_newer))) {
    const Start start = claim_target(plan_digest);
    if (start == Start::kFinished) {
      // Who replaces a target gives up what it holds; others do not.
      if (!options_.overwrite)
        check_all_listed(directory_, read_manifest(directory_ / kManifestName).file_list,
                         fmt::format("was made by no run, and lies in {}, which was left while {} was replaced and "
                                     "would be removed; move it away, or discard it with --resume --overwrite",
                                     directory_.string(), target_.string()));
      remove_finished(directory_);
      lock_.reset();
    }
    return start;
  }
  if (options_.resume) {
    if (staged_digest != plan_digest)
      refuse_plan(directory_, "is a finished target not yet in place", staged_digest, plan_digest, kDiscard);
    if (!target_exists_ || options_.overwrite) return Start::kPublish;
    return claim_target(plan_digest);
  }
  if (options_.overwrite) return Start::kNothing;
  refuse(ErrorCode::kExists, directory_,
         "is a finished target that was not put in place; --resume does that, --overwrite discards it");
}

Start Staging::claim_unfinished(const std::string& plan_digest) {
  const std::optional<std::string> digest = journal_plan_digest(directory_);
  if (options_.resume) {
    // An empty one is what a kill leaves of an old target whose directory is removed last.
    std::error_code error;
    const bool is_empty = fs::is_empty(directory_, error);
    if (target_exists_ && (is_empty || !options_.overwrite)) {
      const Start start = claim_target(plan_digest);
      if (start == Start::kFinished && is_empty) {
        remove_tree(directory_);
        lock_.reset();
      }
      return start;
    }
    if (!digest) {
      check_ours();
      return Start::kNothing;  // ended before its journal was there
    }
    if (*digest != plan_digest) refuse_plan(directory_, "was left by a run", *digest, plan_digest, kDiscard);
    return Start::kContinue;
  }
  if (options_.overwrite) return Start::kNothing;
  if (!digest) check_ours();
  refuse(ErrorCode::kExists, directory_,
         "was left by a run that did not finish; --resume continues it, --overwrite discards it");
}

void Staging::check_ours() const {
  const std::string foreign = foreign_file(directory_);
  if (foreign.empty()) return;
  refuse(ErrorCode::kExists, directory_,
         fmt::format("holds {}, but no journal of a run: it may be somebody's; move it away, or discard it with "
                     "--overwrite without --resume",
                     foreign));
}

void Staging::create(const std::string& plan_digest, const std::vector<std::string>& files,
                     const std::vector<std::string>& beside) {
  if (!lock_) {
    if (::mkdir(directory_.c_str(), 0777) != 0) {
      if (errno == EEXIST) refuse(ErrorCode::kExists, directory_, "is in use by another run");
      io_error(directory_, "create the directory", errno);
    }
    lock_.emplace(directory_, LOCK_EX);
  }
  const std::set<fs::path> folders = folders_of(files);
  const std::set<fs::path> names(files.begin(), files.end());
  const auto is_kept = [&](const fs::path& path, fs::file_type type) {
    if (is_journal(path, type)) return true;
    if (start_ != Start::kContinue) return false;
    if (type == fs::file_type::directory) return folders.contains(path);
    return type == fs::file_type::regular && names.contains(path);
  };
  if (start_ == Start::kContinue) {
    check_no_strays(
        directory_,
        "was made by no run of this plan; move it away, or discard all that is there with --overwrite "
        "without --resume",
        [&](const fs::path& path, fs::file_type type) {
          if (is_kept(path, type)) return true;
          return type != fs::file_type::directory &&
                 (names.contains(path) || std::find(beside.begin(), beside.end(), path.string()) != beside.end());
        });
  } else {
    // In this order: whatever a kill leaves of what is discarded is known as this run's, and not as a finished target.
    remove_others(directory_, [&](const fs::path& path, fs::file_type type) {
      return is_journal(path, type) || !is_staging_name(path.string());
    });
    replace_journals(directory_, {plan_digest, {}, {}}, {});
    remove_tree(directory_ / kManifestName);
  }
  remove_others(directory_, is_kept);
  for (const fs::path& folder : folders)
    if (::mkdir((directory_ / folder).c_str(), 0777) != 0 && errno != EEXIST)
      io_error(directory_ / folder, "create the directory", errno);
  lock_->change(LOCK_SH);
}

void Staging::join() {
  if (!lock_) lock_.emplace(directory_, LOCK_SH);
}

void Staging::publish(const std::map<std::string, ManifestFile>& listed) {
  remove_journals(directory_);
  check_complete(directory_, listed, target_exists_ ? "--resume --overwrite" : "--resume");
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory_, error), end; !error && it != end; it.increment(error))
    if (it->is_directory()) sync_directory(it->path());
  if (error) io_error(directory_, "list", error.value());
  sync_directory(directory_);
  if (target_exists_) {
    replace_target(target_, directory_);
  } else {
    put_in_place(directory_, target_);
  }
  sync_place(target_);
  lock_.reset();
}

void Staging::check_outside(const fs::path& file) const {
  std::vector<fs::path> ours = {target_, directory_};
  if (!replaced_.empty()) ours.push_back(replaced_);
  refuse_inside(file, ours, "target");
}

void check_output(const fs::path& output, const std::vector<fs::path>& inputs) {
  const fs::path place = place_of(output);
  if (!fs::is_directory(status_of(place.parent_path())))
    refuse(ErrorCode::kUsage, output, "cannot be written: there is no such folder");
  for (const fs::path& input : inputs)
    if (const fs::path read = resolved(input); is_inside(place, read))
      refuse(ErrorCode::kUsage, output,
             place == read ? std::string("is an input of this command, which is only read")
                           : fmt::format("lies in the checkpoint {}, which is only read", input.string()));
  for (fs::path folder = place.parent_path(); folder.has_relative_path(); folder = folder.parent_path())
    if (finished_digest(folder) || journal_plan_digest(folder))
      refuse(ErrorCode::kUsage, output,
             fmt::format("lies in {}, a target of reshard, which holds only what its run has written; choose another "
                         "place",
                         folder.string()));
}

void check_output_beside(const fs::path& output, const fs::path& target) {
  const fs::path place = resolved(target);
  refuse_inside(output, {place, beside(place, ".partial"), beside(place, ".old"), beside(place, ".replacing")},
                "place for the report");
}

void write_manifest(const fs::path& directory, std::string_view text) {
  const fs::path made = scratch_path(directory, 0);
  write_text(made, text);
  if (::rename(made.c_str(), (directory / kManifestName).c_str()) != 0)
    io_error(directory / kManifestName, "rename the manifest to it", errno);
}

}  // namespace reshard::pipeline
