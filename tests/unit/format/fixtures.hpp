#pragma once
// What the tests of formats share: bytes to fill tensors with, and the words of an error.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/base/file.hpp"
#include "reshard/format/format.hpp"
#include "support/temporary_directory.hpp"

namespace reshard::format {

using Bytes = std::vector<std::byte>;

using test::TemporaryDirectory;

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
