#include "unit/format/hdf5_fixtures.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "reshard/format/hdf5/hdf5.hpp"

namespace reshard::format {

fs::path test_binary() {
  return fs::read_symlink("/proc/self/exe");
}

const FileFormat& hdf5_here() {
  static const std::unique_ptr<FileFormat> format = make_hdf5({});
  return *format;
}

const FileFormat& hdf5_child() {
  static const std::unique_ptr<FileFormat> format = make_hdf5(test_binary());
  return *format;
}

Bytes iota_f32(int first, int count) {
  Bytes out(static_cast<std::size_t>(count) * sizeof(float));
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<float>(first + i);
    std::memcpy(out.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
  }
  return out;
}

const Refusal& find_refusal(const FileCatalog& catalog, std::string_view name) {
  const auto found = std::ranges::find(catalog.refusals, name, &Refusal::name);
  REQUIRE_MESSAGE(found != catalog.refusals.end(), "no refusal of ", std::string(name));
  return *found;
}

std::vector<std::string> refused(const FileCatalog& catalog) {
  std::vector<std::string> out;
  for (const Refusal& refusal : catalog.refusals)
    out.push_back(refusal.name + ": " + std::string(code_name(refusal.issue.code)));
  return out;
}

std::vector<std::string> names(const FileCatalog& catalog) {
  std::vector<std::string> out;
  for (const StoredTensor& tensor : catalog.tensors) out.push_back(tensor.name);
  return out;
}

}  // namespace reshard::format
