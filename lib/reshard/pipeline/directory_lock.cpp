#include "reshard/pipeline/directory_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "reshard/base/error.hpp"

namespace reshard::pipeline {
namespace {

[[noreturn]] void refuse_in_use(const fs::path& directory) {
  throw Error(Issue{ErrorCode::kExists, directory.string(), kNoTensor, "is in use by another run"});
}

}  // namespace

DirectoryLock::DirectoryLock(const fs::path& directory, int operation)
    : directory_(directory), descriptor_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) {
  if (descriptor_ < 0) io_error(directory_, "open the directory", errno);
  try {
    change(operation);
    // Another run may have put it in place, or removed it, before the lock was ours.
    struct stat ours {};
    struct stat there {};
    if (::fstat(descriptor_, &ours) != 0) io_error(directory_, "stat", errno);
    const bool is_there = ::lstat(directory_.c_str(), &there) == 0;
    if (!is_there && errno != ENOENT) io_error(directory_, "stat", errno);
    if (!is_there || ours.st_dev != there.st_dev || ours.st_ino != there.st_ino) refuse_in_use(directory_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

DirectoryLock::~DirectoryLock() {
  ::close(descriptor_);
}

void DirectoryLock::change(int operation) const {
  if (::flock(descriptor_, operation | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) refuse_in_use(directory_);
  io_error(directory_, "lock", errno);
}

}  // namespace reshard::pipeline
