#pragma once
// Tensor bytes through the library: what the child serves, and what is used where there is no child.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "reshard/format/format.hpp"
#include "reshard/format/hdf5/external.hpp"
#include "reshard/format/hdf5/handle.hpp"

namespace reshard::format::hdf5 {

/// An open file. Calls take the library's lock; not safe from several threads. Keeps the dataset of the last call open,
/// for the sake of its chunk cache.
class Datasets {
 public:
  /// Errors: kFormat.
  Datasets(const fs::path& path, const ReadOptions& options);
  ~Datasets();
  Datasets(const Datasets&) = delete;
  Datasets& operator=(const Datasets&) = delete;

  /// `out` = bytes from row-major byte `first_byte` on of the dataset at `address`, in the file's byte order. Errors:
  /// kFormat, without tensor.
  void read(const std::string& address, std::int64_t first_byte, std::span<std::byte> out);

 private:
  void open(const std::string& address);
  void read_elements(std::int64_t first, std::int64_t count, std::byte* out);

  std::string where_;
  ExternalPolicy policy_;
  Handle file_;
  Handle dataset_;
  Handle type_;
  std::string address_;
  Shape shape_;
  std::int64_t element_bytes_ = 0;
};

}  // namespace reshard::format::hdf5
