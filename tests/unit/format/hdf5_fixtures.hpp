#pragma once
// The HDF5 format in this process and through a child, and what the files of tests/data/h5 hold.

#include <memory>
#include <string>

#include "unit/format/fixtures.hpp"

namespace reshard::format {

/// The library runs in this process.
const FileFormat& hdf5_here();
/// The library runs in a child: this test binary.
const FileFormat& hdf5_child();
fs::path test_binary();

inline fs::path h5_case(std::string_view name) {
  return fs::path(RESHARD_TEST_DATA) / "h5" / name;
}

/// Little-endian bytes of 0, 1, 2, ... as f32.
Bytes iota_f32(int first, int count);

const Refusal& find_refusal(const FileCatalog& catalog, std::string_view name);

/// "a: E_LINK", "b: E_DTYPE", ... of all refusals.
std::vector<std::string> refused(const FileCatalog& catalog);

std::vector<std::string> names(const FileCatalog& catalog);

}  // namespace reshard::format
