#include "report_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "reshard/base/error.hpp"
#include "reshard/base/file.hpp"

namespace reshard::app {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

constexpr std::chrono::seconds kWaitForReader{5};

/// A pipe that nobody reads is waited for, as the reader may be about to start, but not for ever.
int open_to_write(const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + kWaitForReader;
  int descriptor = -1;
  while ((descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666)) < 0) {
    const int reason = errno;
    std::error_code unknown;
    if (reason != ENXIO || !std::filesystem::is_fifo(path, unknown)) io_error(path, "open to write", reason);
    if (std::chrono::steady_clock::now() > end)
      throw Error(Issue{ErrorCode::kIo, path, kNoTensor,
                        fmt::format("is a pipe that nothing has opened to read for {} s", kWaitForReader.count())});
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) != 0) {
    const int reason = errno;
    ::close(descriptor);
    io_error(path, "open to write", reason);
  }
  return descriptor;
}

}  // namespace

void write_report(const std::string& path, std::string_view text) {
  const Descriptor file(open_to_write(path));
  while (!text.empty()) {
    const ssize_t written = ::write(file.number(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) io_error(path, "write the result", errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) io_error(path, "stat", errno);
  if (S_ISREG(status.st_mode) && ::fsync(file.number()) != 0) io_error(path, "flush to disk", errno);
}

bool may_take_error(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return true;
  std::ifstream file(path, std::ios::binary);
  std::string begin(40, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(file.gcount()));
  if (begin.empty()) return file.is_open();
  // As reports begin. A manifest and a report of `inspect` begin alike, and may be inputs.
  constexpr std::string_view kBegin = "{\n \"schema\": \"reshard.";
  if (!begin.starts_with(kBegin)) return false;
  const std::string_view kind = std::string_view(begin).substr(kBegin.size());
  return !kind.starts_with("manifest") && !kind.starts_with("inspect");
}

}  // namespace reshard::app
