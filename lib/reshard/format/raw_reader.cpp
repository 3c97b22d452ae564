#include "reshard/format/raw_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace reshard::format {
namespace {

/// Bytes that change places together: the parts of a complex number are turned each on its own.
std::size_t swap_bytes(Dtype dtype) {
  const auto bytes = static_cast<std::size_t>(size_bytes(dtype));
  return dtype == Dtype::kC64 || dtype == Dtype::kC128 ? bytes / 2 : bytes;
}

void swap_elements(std::span<std::byte> bytes, std::size_t width) {
  for (std::size_t i = 0; i + width <= bytes.size(); i += width) std::ranges::reverse(bytes.subspan(i, width));
}

}  // namespace

void read_ordered(const StoredTensor& tensor, std::int64_t first_byte, std::span<std::byte> out,
                  const ByteSource& source) {
  const std::int64_t total = payload_bytes(tensor.dtype, tensor.shape);
  const std::int64_t size = std::ssize(out);
  if (first_byte < 0 || first_byte > total || size > total - first_byte)
    internal_error(fmt::format("read of {} bytes at {} of tensor '{}', which has {}", size, first_byte,
                               escaped(tensor.name), total));
  if (out.empty()) return;
  const auto width = static_cast<std::int64_t>(swap_bytes(tensor.dtype));
  if (!tensor.big_endian || width == 1) return source(first_byte, out);

  // Whole elements are read in place; an element of which only a part is asked for goes through a buffer of its own.
  const std::int64_t last = first_byte + size;
  std::int64_t at = first_byte;
  while (at < last) {
    const std::int64_t element = at / width * width;
    const std::span<std::byte> rest = out.subspan(static_cast<std::size_t>(at - first_byte));
    if (at == element && last - at >= width) {
      const std::span<std::byte> whole = rest.first(static_cast<std::size_t>((last - at) / width * width));
      source(at, whole);
      swap_elements(whole, static_cast<std::size_t>(width));
      at += std::ssize(whole);
    } else {
      std::array<std::byte, 8> buffer{};
      const std::span<std::byte> whole = std::span(buffer).first(static_cast<std::size_t>(width));
      source(element, whole);
      swap_elements(whole, static_cast<std::size_t>(width));
      const std::int64_t count = std::min(element + width, last) - at;
      std::ranges::copy(whole.subspan(static_cast<std::size_t>(at - element), static_cast<std::size_t>(count)),
                        rest.begin());
      at += count;
    }
  }
}

void read_raw(const File& file, const StoredTensor& tensor, std::int64_t first_byte, std::span<std::byte> out) {
  read_ordered(tensor, first_byte, out, [&](std::int64_t first, std::span<std::byte> bytes) {
    if (!tensor.offset) internal_error(fmt::format("tensor '{}' has no offset", escaped(tensor.name)));
    file.read(*tensor.offset + first, bytes);
  });
}

}  // namespace reshard::format
