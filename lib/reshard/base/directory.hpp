#pragma once
// Paths and directories, with E_IO (exit 5) where the system says anything but yes or "there is no such thing".

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "reshard/base/file.hpp"

namespace reshard {

/// The path without links, as far as it exists; no trailing separator.
fs::path resolved(const fs::path& path);

/// Whether a path is, or lies below, another one; both resolved.
bool is_inside(const fs::path& inner, const fs::path& outer);

/// The status of what a path names, links followed; what is not there is not found.
fs::file_status status_of(const fs::path& path);
/// The same of the path itself, which may be a link.
fs::file_status own_status_of(const fs::path& path);

/// Where a file is, or would be made through a link that leads to nothing yet. A pipe or a device is where its name
/// is: a link to it, as /dev/stdout, may lead to no path at all.
fs::path place_of(const fs::path& path);

/// The file system that something which exists lies on.
dev_t device_of(const fs::path& path);

/// What changes when a file is written or another one is put in its place.
struct FileState {
  dev_t device = 0;
  ino_t inode = 0;
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;

  friend bool operator==(const FileState&, const FileState&) = default;
};

/// Links are followed. All zero for a file that is not there.
FileState state_of(const fs::path& path);

/// With all that is in it; nothing where it is not there.
void remove_tree(const fs::path& path);

/// Whether something is to be left alone: its path relative to the directory, its own type.
using Keeps = std::function<bool(const fs::path& path, fs::file_type type)>;

/// Leaves of a directory what `keeps` says. A folder that goes, goes with all that is in it.
void remove_others(const fs::path& directory, const Keeps& keeps);

}  // namespace reshard
