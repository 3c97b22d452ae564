#pragma once
// A directory that one run has for itself: held as long as the object, and by the system no longer than the process.

#include "reshard/base/file.hpp"

namespace reshard::pipeline {

class DirectoryLock {
 public:
  /// `operation`: LOCK_EX or LOCK_SH. Errors: kExists where another run has it, or has renamed or removed it; kIo.
  DirectoryLock(const fs::path& directory, int operation);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  void change(int operation) const;

 private:
  fs::path directory_;
  int descriptor_ = -1;
};

}  // namespace reshard::pipeline
