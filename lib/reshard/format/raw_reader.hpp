#pragma once
// Tensor bytes that lie in one piece in a file: what every format with offsets reads with.

#include <cstdint>
#include <functional>
#include <span>

#include "reshard/base/file.hpp"
#include "reshard/format/format.hpp"

namespace reshard::format {

/// Fills `out` with bytes of the file's own order, from logical byte `first_byte` on.
using ByteSource = std::function<void(std::int64_t first_byte, std::span<std::byte> out)>;

/// Reads through `source` and turns big-endian elements round. A range that begins or ends inside an element is read
/// with the rest of that element.
void read_ordered(const StoredTensor& tensor, std::int64_t first_byte, std::span<std::byte> out,
                  const ByteSource& source);

/// `out` = bytes [first_byte, first_byte + out.size()) of a tensor that has an offset. Errors: kIo.
void read_raw(const File& file, const StoredTensor& tensor, std::int64_t first_byte, std::span<std::byte> out);

}  // namespace reshard::format
