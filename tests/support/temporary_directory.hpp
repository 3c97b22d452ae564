#pragma once
// A fresh directory that goes with its owner, in memory where the system has room there.

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "reshard/base/error.hpp"

namespace reshard::test {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::error_code error;
    const std::filesystem::path memory = "/dev/shm";
    // A container has 64 MiB there; -1 is more, and means that there is no such place.
    const bool roomy = std::filesystem::space(memory, error).available >= kRoomBytes && !error;
    std::string name = ((roomy ? memory : std::filesystem::temp_directory_path()) / "reshard-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) internal_error("no temporary directory");
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  static constexpr std::uintmax_t kRoomBytes = std::uintmax_t{512} << 20;

  std::filesystem::path path_;
};

}  // namespace reshard::test
