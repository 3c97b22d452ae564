#pragma once
// What the tests of formats share: a folder that goes away, bytes to fill tensors with, and the words of an error.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/base/file.hpp"
#include "reshard/format/format.hpp"

namespace reshard::format {

using Bytes = std::vector<std::byte>;

/// A new empty folder, removed with its contents.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  fs::path operator/(std::string_view name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Bytes that depend on name and position through a mixing hash.
Bytes pattern_bytes(std::string_view name, std::int64_t count);

Bytes to_bytes(std::string_view text);
Bytes file_bytes(const fs::path& path);
void write_bytes(const fs::path& path, std::string_view text);

/// Creates `file` and writes pattern_bytes of each tensor's name at its offset.
void write_file(const FileFormat& format, const fs::path& path, const NewFile& file);

Bytes read_tensor(TensorReader& reader, const StoredTensor& tensor);

const StoredTensor& find_tensor(const FileCatalog& catalog, std::string_view name);

/// The issues that `act` throws; none if it throws no Error.
std::vector<Issue> issues_of(const std::function<void()>& act);

/// The first of them; fails the test where there is none.
Issue issue_of(const std::function<void()>& act);

}  // namespace reshard::format
