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

#include "reshard/base/directory.hpp"
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

/// The beginning of a regular file; empty where it cannot be read.
std::string beginning(const std::string& path, std::size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string out(bytes, '\0');
  file.read(out.data(), static_cast<std::streamsize>(bytes));
  out.resize(static_cast<std::size_t>(file.gcount()));
  return out;
}

/// A file that has other names, which may be a checkpoint's, is not written into.
void leave_other_names(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink < 2) return;
  std::error_code unknown;
  const fs::path place = fs::canonical(path, unknown);
  if (!unknown) fs::remove(place, unknown);
  if (unknown) io_error(path, "replace", unknown.value());
}

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

void check_replaceable(const std::string& path, const pipeline::Formats& formats) {
  const auto refuse = [&](std::string_view what) {
    throw Error(Issue{ErrorCode::kUsage, path, kNoTensor,
                      fmt::format("is {}, which --output does not replace; choose another place", what)});
  };
  const fs::file_status status = status_of(path);
  if (fs::is_directory(status)) refuse("a directory");
  if (!fs::is_regular_file(status)) return;
  for (const auto& format : formats.all())
    if (format->recognises(path)) refuse(fmt::format("a {} file", format->name()));
  constexpr std::size_t kEnoughBytes = 4096;
  const std::string begin = beginning(path, kEnoughBytes);
  for (const std::string_view schema : {"\"reshard.manifest\"", "\"weight_map\""})
    if (begin.find(schema) != std::string::npos) refuse("a file of a checkpoint");
  // The key that every plan has (plan format section 2), in YAML and in JSON.
  if (begin.starts_with("reshard:") || begin.find("\nreshard:") != std::string::npos ||
      begin.find("\"reshard\"") != std::string::npos)
    refuse("a plan");
}

void write_report(const std::string& path, std::string_view text) {
  leave_other_names(path);
  const Descriptor file(open_to_write(path));
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) io_error(path, "stat", errno);
  const bool is_file = S_ISREG(status.st_mode);
  // Half a report is none.
  const auto fail = [&](std::string_view action) {
    const int reason = errno;
    if (is_file && ::ftruncate(file.number(), 0) != 0) action = "write all of the result";
    io_error(path, action, reason);
  };
  while (!text.empty()) {
    const ssize_t written = ::write(file.number(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write the result");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (is_file && ::fsync(file.number()) != 0) fail("flush the result to disk");
}

bool may_take_error(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return true;
  const std::string begin = beginning(path, 40);
  if (begin.empty()) return std::ifstream(path).is_open();
  // As reports begin. A manifest and a report of `inspect` begin alike, and may be inputs.
  constexpr std::string_view kBegin = "{\n \"schema\": \"reshard.";
  if (!begin.starts_with(kBegin)) return false;
  const std::string_view kind = std::string_view(begin).substr(kBegin.size());
  return !kind.starts_with("manifest") && !kind.starts_with("inspect");
}

}  // namespace reshard::app
