#pragma once
// What the fuzz targets share. A target is a function of bytes from elsewhere, LLVMFuzzerTestOneInput; what makes it
// fail is a signal, a sanitizer's report, an exception other than reshard::Error, a refusal with another exit code than
// the reader's contract names, or a broken property.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "reshard/base/error.hpp"
#include "reshard/base/file.hpp"
#include "support/temporary_directory.hpp"

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

/// How often a reader accepted and refused, over all inputs: a replay in which one of them never happens tests little.
struct Counts {
  int accepted = 0;
  int refused = 0;
};
inline Counts counts;

/// Notes the outcome and hands it on.
inline bool note(bool accepted) {
  ++(accepted ? counts.accepted : counts.refused);
  return accepted;
}

/// Whether `read` accepts its input. A refusal must have this exit code, which a fault of ours (kInternal) never has.
template <typename Read>
bool accepts(Exit refusal, Read read) {
  try {
    read();
    return note(true);
  } catch (const Error& error) {
    if (error.exit() != refusal) std::fprintf(stderr, "refused with exit %d: %s\n", int(error.exit()), error.what());
    require(error.exit() == refusal, "a refusal has the exit code of the reader's contract");
    return note(false);
  }
}

/// A file with these bytes, for readers that take a path. Each has a path of its own.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes) {
    static const test::TemporaryDirectory directory;
    static int number = 0;
    path_ = directory.path() / std::to_string(++number);
    std::ofstream(path_, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  }
  ~InputFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace reshard::fuzz
