#include "reshard/base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "reshard/base/error.hpp"

namespace reshard {
namespace {

/// Linux moves at most this much in one call.
constexpr std::size_t kCallBytes = std::size_t{1} << 30;

std::string kind_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return "a directory";
  if (S_ISFIFO(status.st_mode)) return "a FIFO";
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) return "a device";
  if (S_ISSOCK(status.st_mode)) return "a socket";
  return "no regular file";
}

void check_regular(const fs::path& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode))
    throw Error(Issue{ErrorCode::kFormat, path.string(), kNoTensor,
                      fmt::format("is {}, expected a regular file", kind_of(status))});
}

void close_quietly(int descriptor) {
  if (descriptor >= 0) ::close(descriptor);
}

}  // namespace

void io_error(const fs::path& path, std::string_view action, int error_number) {
  throw Error(Issue{ErrorCode::kIo, path.string(), kNoTensor,
                    fmt::format("cannot {}: {}", action, std::strerror(error_number))});
}

File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    close_quietly(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    path_ = std::move(other.path_);
  }
  return *this;
}

File::~File() {
  close_quietly(descriptor_);
}

File File::open_to_read(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int reason = errno;
    if (reason == ENOENT || reason == ENOTDIR)
      throw Error(Issue{ErrorCode::kMissing, path.string(), kNoTensor, "there is no such file"});
    struct stat status {};
    if (reason == ENXIO && ::stat(path.c_str(), &status) == 0) check_regular(path, status);  // a socket
    io_error(path, "open to read", reason);
  }
  File file(descriptor, path);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) io_error(path, "stat", errno);
  check_regular(path, status);
  return file;
}

File File::create(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) io_error(path, "create", errno);
  return File(descriptor, path);
}

File File::open_to_write(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) io_error(path, "open to write", errno);
  return File(descriptor, path);
}

File File::open_to_append(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) io_error(path, "open to append", errno);
  return File(descriptor, path);
}

void File::read(std::int64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(descriptor_, out.data() + done, std::min(out.size() - done, kCallBytes),
                              offset + static_cast<std::int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) io_error(path_, fmt::format("read {} bytes at {}", out.size(), offset), errno);
    if (n == 0)
      throw Error(Issue{ErrorCode::kIo, path_.string(), kNoTensor,
                        fmt::format("ends at byte {} while {} bytes at {} were to be read: the file has become shorter",
                                    offset + static_cast<std::int64_t>(done), out.size(), offset)});
    done += static_cast<std::size_t>(n);
  }
}

void File::write(std::int64_t offset, std::span<const std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::pwrite(descriptor_, bytes.data() + done, std::min(bytes.size() - done, kCallBytes),
                               offset + static_cast<std::int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) io_error(path_, fmt::format("write {} bytes at {}", bytes.size(), offset), errno);
    if (n == 0) io_error(path_, fmt::format("write {} bytes at {}", bytes.size(), offset), ENOSPC);
    done += static_cast<std::size_t>(n);
  }
}

void File::append(std::string_view text) const {
  ssize_t n = -1;
  do {
    n = ::write(descriptor_, text.data(), text.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) io_error(path_, fmt::format("append {} bytes", text.size()), errno);
  if (static_cast<std::size_t>(n) < text.size()) io_error(path_, fmt::format("append {} bytes", text.size()), ENOSPC);
}

void File::resize(std::int64_t bytes) const {
  while (::ftruncate(descriptor_, bytes) != 0)
    if (errno != EINTR) io_error(path_, fmt::format("set its size to {}", bytes), errno);
}

void File::sync() const {
  while (::fsync(descriptor_) != 0)
    if (errno != EINTR) io_error(path_, "flush to disk", errno);
}

void File::forget_cached() const {
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
}

std::int64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) io_error(path_, "stat", errno);
  return status.st_size;
}

void File::close() {
  if (descriptor_ < 0) return;
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) io_error(path_, "close", errno);
}

std::string read_text(const fs::path& path, std::int64_t limit_bytes) {
  const File file = File::open_to_read(path);
  const std::int64_t bytes = file.size();
  if (bytes > limit_bytes)
    throw Error(Issue{ErrorCode::kFormat, path.string(), kNoTensor,
                      fmt::format("has {} bytes, expected at most {}", bytes, limit_bytes)});
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void write_text(const fs::path& path, std::string_view text) {
  File file = File::create(path);
  file.write(0, std::as_bytes(std::span(text)));
  file.sync();
  file.close();
}

void sync_directory(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) io_error(path, "open the directory", errno);
  const int result = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  // Some file systems know no fsync on directories; there is nothing to flush there.
  if (result != 0 && reason != EINVAL) io_error(path, "flush the directory", reason);
}

}  // namespace reshard
