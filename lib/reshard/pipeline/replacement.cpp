#include "reshard/pipeline/replacement.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <system_error>

#include "reshard/base/directory.hpp"
#include "reshard/base/error.hpp"
#include "reshard/pipeline/directory_lock.hpp"
#include "reshard/pipeline/journal.hpp"
#include "reshard/pipeline/staging.hpp"

namespace reshard::pipeline {
namespace {

constexpr std::string_view kFirstWords = "reshard replaces 1 ";
constexpr std::int64_t kMostRecordBytes = 256;

fs::path beside(const fs::path& target, const char* ending) {
  fs::path out = target;
  out += ending;
  return out;
}

fs::path old_place(const fs::path& target) {
  return beside(target, ".old");
}

fs::path record_place(const fs::path& target) {
  return beside(target, ".replacing");
}

bool is_there(const fs::path& path) {
  return fs::exists(own_status_of(path));
}

/// A directory that is renamed stays the same; one that is changed, or made anew, has another time. The number of its
/// device may change when that is mounted again.
std::string record_of(const fs::path& directory) {
  const FileState state = state_of(directory);
  return fmt::format("{}{} {}\n", kFirstWords, state.inode, state.modified_ns);
}

bool is_recorded(const std::string& record, const fs::path& path) {
  return fs::is_directory(own_status_of(path)) && record_of(path) == record;
}

/// Nothing where there is none, or somebody's file.
std::optional<std::string> read_record(const fs::path& path) {
  if (!fs::is_regular_file(own_status_of(path)) || state_of(path).bytes > kMostRecordBytes) return std::nullopt;
  std::string text = read_text(path, kMostRecordBytes);
  return text.starts_with(kFirstWords) ? std::optional(std::move(text)) : std::nullopt;
}

/// It is there whole or not at all.
void write_record(const fs::path& target, const fs::path& staged) {
  const fs::path made = scratch_path(staged, 0);
  write_text(made, record_of(target));
  move_path(made, record_place(target));
  sync_directory(target.parent_path());
}

void remove_record(const fs::path& target) {
  remove_tree(record_place(target));
}

/// What fails once the new target is in place.
[[noreturn]] void fail_in_place(const fs::path& path, std::string_view what, const Error& error) {
  throw Error(
      Issue{ErrorCode::kIo, path.string(), kNoTensor,
            fmt::format("the new target is in place and complete, but {}: {}", what, error.issues().front().message)});
}

/// The target that has been replaced.
void remove_replaced(const fs::path& directory) {
  try {
    remove_finished(directory);
  } catch (const Error& error) {
    fail_in_place(directory, "the old one cannot be removed from here", error);
  }
}

void replace_by_renames(const fs::path& target, const fs::path& staged) {
  const fs::path old = old_place(target);
  for (const fs::path& path : {old, record_place(target)})
    if (is_there(path))
      throw Error(Issue{ErrorCode::kExists, path.string(), kNoTensor,
                        "is in the way of replacing the target; move it away and run again with --resume --overwrite"});
  write_record(target, staged);
  move_path(target, old);
  try {
    move_path(staged, target);
  } catch (const Error&) {
    // Where this fails too, the record is there for the next run.
    if (std::error_code error; fs::rename(old, target, error), !error) remove_record(target);
    throw;
  }
  move_path(old, staged);
  sync_place(target);
  remove_record(target);
}

}  // namespace

void sync_place(const fs::path& target) {
  try {
    sync_directory(target.parent_path());
  } catch (const Error& error) {
    fail_in_place(target.parent_path(), "a power cut may still undo that", error);
  }
}

void move_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) io_error(to, fmt::format("rename {} to it", from.string()), errno);
}

void remove_finished(const fs::path& directory) {
  remove_others(directory, [](const fs::path& path, fs::file_type) { return path == kManifestName; });
  remove_tree(directory);
}

void replace_target(const fs::path& target, const fs::path& staged) {
  if (::renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    sync_place(target);
  } else if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) {
    replace_by_renames(target, staged);
  } else {
    io_error(target, "exchange with the new target", errno);
  }
  remove_replaced(staged);
}

void settle(const fs::path& target, const fs::path& staged) {
  if (!read_record(record_place(target))) return;
  // A run that is at it holds the lock of the new target, at either place.
  std::optional<DirectoryLock> staged_lock;
  std::optional<DirectoryLock> target_lock;
  if (fs::is_directory(own_status_of(staged))) staged_lock.emplace(staged, LOCK_EX);
  if (fs::is_directory(own_status_of(target))) target_lock.emplace(target, LOCK_EX);
  const std::optional<std::string> record = read_record(record_place(target));
  if (!record) return;
  const fs::path old = old_place(target);
  if (is_there(old) && !is_recorded(*record, target)) {
    const auto refuse = [&](std::string_view what) {
      throw Error(Issue{
          ErrorCode::kExists, old.string(), kNoTensor,
          fmt::format("a run that replaced {} was ended while the old target was here, {}", target.string(), what)});
    };
    if (!is_recorded(*record, old))
      refuse("and what is here now has been changed since: keep what you need of it, move it away and run again");
    if (!is_there(target)) {
      move_path(old, target);
    } else if (!is_there(staged)) {
      move_path(old, staged);
    } else {
      refuse(fmt::format("the new one is at {}, and something has appeared at its place: move that away and run again",
                         staged.string()));
    }
    sync_directory(target.parent_path());
  }
  remove_record(target);
}

fs::path replaced_by_renames(const fs::path& target) {
  const std::optional<std::string> record = read_record(record_place(target));
  return record && is_recorded(*record, old_place(target)) ? old_place(target) : fs::path();
}

std::string moved_away_text(const fs::path& directory) {
  const fs::path target = resolved(directory);
  const fs::path old = replaced_by_renames(target);
  if (old.empty()) return {};
  return fmt::format(
      "; a run that replaced it was ended while it was at {}: the same run with --resume --overwrite puts "
      "the new one here, and renaming brings the old one back",
      old.string());
}

}  // namespace reshard::pipeline
