#pragma once
// Checkpoint files written and read the plainest way there is, with no code of the format room: safetensors as a JSON
// header and bytes, HDF5 through the library's own calls.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reshard/base/dtype.hpp"

namespace reshard::minimal {

struct Tensor {
  std::string dtype;  ///< safetensors' name in lower case; read from HDF5: empty
  Shape shape;
  std::vector<std::byte> bytes;

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

using Tensors = std::map<std::string, Tensor>;

std::vector<std::byte> read_bytes(const std::filesystem::path& path);

/// `format`: "hdf5" or "safetensors"; folders above the file are made.
void write(const std::filesystem::path& path, const std::string& format, const Tensors& tensors);
Tensors read(const std::filesystem::path& path, const std::string& format);

}  // namespace reshard::minimal
