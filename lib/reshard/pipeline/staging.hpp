#pragma once
// How a target comes to be: everything is written to TARGET.partial, which is locked while the run lives, and renamed
// into place when it is complete. A directory under the target's own name is finished or an old one, at any instant
// (interface section 3).
//
// All of this is done by one process of a run.

#include <optional>
#include <string>
#include <vector>

#include "reshard/base/file.hpp"

namespace reshard::pipeline {

/// Name of the manifest in a finished target. A directory without it is no finished target.
inline constexpr const char* kManifestName = "reshard.json";

class Staging {
 public:
  /// Checks places: the target must not exist or be an empty directory (kExists, unless `overwrite`); source and target
  /// are not the same place nor one inside the other, also through links; the folder above the target exists (kUsage).
  /// Nothing is changed.
  Staging(const fs::path& source, const fs::path& target, bool overwrite);

  /// Creates and locks TARGET.partial. Errors: kExists where it is in use by another run, or was left by one (unless
  /// `overwrite`, which discards it), kIo.
  void create(const std::vector<std::string>& files);
  /// Makes directory and target durable and puts the target in place; with `overwrite` an old one is exchanged and then
  /// removed.
  void publish();

  /// TARGET.partial
  const fs::path& directory() const { return directory_; }
  const fs::path& target() const { return target_; }

 private:
  void lock();
  void replace_old();

  fs::path target_;
  fs::path directory_;
  bool overwrite_;
  bool target_exists_ = false;  ///< with something in it
  std::vector<fs::path> folders_;
  /// Owns the descriptor that holds the lock.
  struct Lock {
    explicit Lock(const fs::path& directory);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    int descriptor = -1;
  };
  std::optional<Lock> lock_;
};

}  // namespace reshard::pipeline
