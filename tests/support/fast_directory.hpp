#pragma once
// A fresh directory that goes with its owner, in memory where the system has such a place.

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "reshard/base/error.hpp"

namespace reshard::test {

class FastDirectory {
 public:
  FastDirectory() {
    std::error_code error;
    const std::filesystem::path memory = "/dev/shm";
    const bool there = std::filesystem::is_directory(memory, error);
    std::string name = ((there ? memory : std::filesystem::temp_directory_path()) / "reshard-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) internal_error("no temporary directory");
    path_ = name;
  }
  ~FastDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  FastDirectory(const FastDirectory&) = delete;
  FastDirectory& operator=(const FastDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace reshard::test
