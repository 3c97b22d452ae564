#include "unit/format/fixtures.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace reshard::format {

Bytes pattern_bytes(std::string_view name, std::int64_t count) {
  std::uint64_t seed = 14695981039346656037ULL;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  Bytes out;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t x = seed + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    out.push_back(static_cast<std::byte>(x >> 56));
  }
  return out;
}

Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes file_bytes(const fs::path& path) {
  const File file = File::open_to_read(path);
  Bytes out(static_cast<std::size_t>(file.size()));
  file.read(0, out);
  return out;
}

void write_bytes(const fs::path& path, std::string_view text) {
  write_text(path, text);
}

void write_file(const FileFormat& format, const fs::path& path, const NewFile& file) {
  const FileLayout layout = format.create(path, file, 1);
  REQUIRE(layout.offsets.size() == file.tensors.size());
  const File out = File::open_to_write(path);
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const NewTensor& tensor = file.tensors[i];
    out.write(layout.offsets[i], pattern_bytes(tensor.name, payload_bytes(tensor.dtype, tensor.shape)));
  }
  CHECK(out.size() == layout.bytes);
}

Bytes read_tensor(TensorReader& reader, const StoredTensor& tensor) {
  Bytes out(static_cast<std::size_t>(payload_bytes(tensor.dtype, tensor.shape)));
  reader.read(tensor, 0, out);
  return out;
}

const StoredTensor& find_tensor(const FileCatalog& catalog, std::string_view name) {
  const auto found = std::ranges::find(catalog.tensors, name, &StoredTensor::name);
  REQUIRE_MESSAGE(found != catalog.tensors.end(), "no tensor ", std::string(name));
  return *found;
}

std::vector<Issue> issues_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.issues();
  }
  return {};
}

Issue issue_of(const std::function<void()>& act) {
  const std::vector<Issue> issues = issues_of(act);
  REQUIRE_MESSAGE(!issues.empty(), "no error was thrown");
  return issues.front();
}

}  // namespace reshard::format
