#pragma once
// The header of a safetensors file, read and written.

#include <cstdint>
#include <string>

#include "reshard/base/file.hpp"
#include "reshard/format/format.hpp"

namespace reshard::format::safetensors {

/// The reference reader's cap on the length N of a header.
constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

/// Reads and checks the header of an open file: every range agrees with dtype and shape, and the ranges tile the file.
/// Errors, each naming file, tensor and numbers: kFormat; kDtype for elements smaller than a byte; kUnsupported for
/// more than 64 dims and for a shard of a torch DCP set. Memory: the header, and a catalog entry per tensor.
FileCatalog read_header(const File& file);

/// A new file's first bytes (length and header) and where its tensors lie.
struct WrittenHeader {
  std::string bytes;
  FileLayout layout;
};

/// Errors: kUnsupported where the header would pass kMaxHeaderBytes.
WrittenHeader write_header(const NewFile& file, const std::string& path);

}  // namespace reshard::format::safetensors
