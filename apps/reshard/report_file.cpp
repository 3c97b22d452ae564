#include "report_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

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

}  // namespace

void write_report(const std::string& path, std::string_view text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.number() < 0) io_error(path, "open to write", errno);
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

}  // namespace reshard::app
