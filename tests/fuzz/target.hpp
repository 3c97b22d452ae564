#pragma once
// What the fuzz targets share. A target is a function of bytes from elsewhere, LLVMFuzzerTestOneInput; what makes it
// fail is a signal, a sanitizer's report, an exception other than reshard::Error, a refusal with another exit code than
// the reader's contract names, or a broken property.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "reshard/base/error.hpp"
#include "reshard/base/file.hpp"

/// The interface of libFuzzer. `size` bytes; returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
/// Called once before; a target may leave it out.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace reshard::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the process with the name of a property that does not hold.
inline void require(bool holds, std::string_view property) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %.*s\n", static_cast<int>(property.size()), property.data());
  std::abort();
}

/// Whether `read` accepts its input. A refusal must have this exit code, which a fault of ours (kInternal) never has.
template <typename Read>
bool accepts(Exit refusal, Read read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    if (error.exit() != refusal) std::fprintf(stderr, "refused with exit %d: %s\n", int(error.exit()), error.what());
    require(error.exit() == refusal, "a refusal has the exit code of the reader's contract");
    return false;
  }
}

/// A file in memory with these bytes, for readers that take a path. Consecutive ones have different paths, which other
/// processes of this user can open too.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes) {
    static int number = 0;
    const int made = ::memfd_create("reshard-fuzz", MFD_CLOEXEC);
    number = (number + 1) % 100;
    descriptor_ = ::fcntl(made, F_DUPFD_CLOEXEC, 100 + number);
    ::close(made);
    const bool written =
        descriptor_ >= 0 && ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
    if (!written) {
      std::perror("a file in memory");
      std::exit(1);
    }
    path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor_);
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const fs::path& path() const { return path_; }

 private:
  int descriptor_ = -1;
  fs::path path_;
};

}  // namespace reshard::fuzz
