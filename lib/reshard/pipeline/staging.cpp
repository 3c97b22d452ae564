#include "reshard/pipeline/staging.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>
#include <system_error>

#include "reshard/base/error.hpp"

namespace reshard::pipeline {
namespace {

[[noreturn]] void refuse(ErrorCode code, const fs::path& path, std::string message) {
  throw Error(Issue{code, path.string(), "", std::move(message)});
}

/// The path without links, as far as it exists; no trailing separator.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path out = fs::weakly_canonical(fs::absolute(path), error);
  if (error) io_error(path, "resolve", error.value());
  return out.has_filename() ? out : out.parent_path();
}

bool is_inside(const fs::path& inner, const fs::path& outer) {
  auto i = inner.begin();
  for (const fs::path& part : outer) {
    if (i == inner.end() || *i != part) return false;
    ++i;
  }
  return true;
}

void move_directory(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) io_error(to, fmt::format("rename {} to it", from.string()), errno);
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) io_error(path, "remove", error.value());
}

}  // namespace

Staging::Lock::Lock(const fs::path& directory)
    : descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) {
  if (descriptor < 0) io_error(directory, "open the directory", errno);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  ::close(descriptor);
  if (reason == EWOULDBLOCK) refuse(ErrorCode::kExists, directory, "is in use by another run");
  io_error(directory, "lock", reason);
}

Staging::Lock::~Lock() {
  ::close(descriptor);
}

Staging::Staging(const fs::path& source, const fs::path& target, bool overwrite) : overwrite_(overwrite) {
  if (target.empty()) refuse(ErrorCode::kUsage, target, "the target has no name");
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(target, error)) && !fs::exists(target, error))
    refuse(ErrorCode::kUsage, target, "is a link to nothing");
  target_ = resolved(target);
  if (!target_.has_relative_path()) refuse(ErrorCode::kUsage, target_, "the target has no folder above it");
  directory_ = target_;
  directory_ += ".partial";
  if (!fs::is_directory(target_.parent_path(), error))
    refuse(ErrorCode::kUsage, target_.parent_path(), "the folder above the target does not exist");
  const fs::path from = resolved(source);
  if (is_inside(from, target_) || is_inside(target_, from))
    refuse(ErrorCode::kUsage, target_,
           fmt::format("source and target overlap: the source is {}; choose a target beside it", from.string()));
  if (is_inside(from, directory_))
    refuse(ErrorCode::kUsage, directory_, "the source lies in the target's staging directory");

  const fs::file_status status = fs::status(target_, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) refuse(ErrorCode::kExists, target_, "exists and is no directory");
  target_exists_ = !fs::is_empty(target_, error);
  if (error) io_error(target_, "list", error.value());
  if (target_exists_ && !overwrite_)
    refuse(ErrorCode::kExists, target_,
           "exists and is not empty; --overwrite replaces it when the new one is complete");
}

void Staging::create(const std::vector<std::string>& files) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(directory_, error))) {
    if (fs::is_symlink(fs::symlink_status(directory_, error)) || !fs::is_directory(directory_, error))
      refuse(ErrorCode::kExists, directory_, "is in the way: it is no staging directory");
    lock_.emplace(directory_);
    // Beside a complete target a complete staging directory is the old target, left by a run that ended during the
    // exchange.
    const bool old_target = fs::exists(directory_ / kManifestName, error) && fs::exists(target_ / kManifestName, error);
    if (!old_target && !overwrite_)
      refuse(ErrorCode::kExists, directory_, "was left by a run that did not finish; --overwrite discards it");
    remove_tree(directory_);
    lock_.reset();
  }
  if (::mkdir(directory_.c_str(), 0777) != 0) {
    if (errno == EEXIST) refuse(ErrorCode::kExists, directory_, "is in use by another run");
    io_error(directory_, "create the directory", errno);
  }
  lock_.emplace(directory_);
  std::set<fs::path> folders;
  for (const std::string& file : files)
    for (fs::path folder = fs::path(file).parent_path(); !folder.empty(); folder = folder.parent_path())
      folders.insert(directory_ / folder);
  for (const fs::path& folder : folders) {  // a folder sorts before what is in it
    if (::mkdir(folder.c_str(), 0777) != 0) io_error(folder, "create the directory", errno);
    folders_.push_back(folder);
  }
}

void Staging::publish() {
  for (const fs::path& folder : folders_) sync_directory(folder);
  sync_directory(directory_);
  if (target_exists_) {
    replace_old();
  } else {
    // Never over something that has appeared meanwhile: rename(2) replaces an empty directory only.
    move_directory(directory_, target_);
  }
  sync_directory(target_.parent_path());
  lock_.reset();
}

void Staging::replace_old() {
  if (::renameat2(AT_FDCWD, directory_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    sync_directory(target_.parent_path());
    remove_tree(directory_);
    return;
  }
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) io_error(target_, "exchange with the new target", errno);
  // This file system cannot exchange: for an instant the old target is at TARGET.old.
  fs::path old = target_;
  old += ".old";
  move_directory(target_, old);
  move_directory(directory_, target_);
  sync_directory(target_.parent_path());
  remove_tree(old);
}

}  // namespace reshard::pipeline
