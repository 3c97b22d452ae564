#pragma once
// What is done with the elements of one box in host memory: move them, pack them, unpack them, take their digest.

#include <cstddef>
#include <cstdint>
#include <span>

#include "reshard/base/dtype.hpp"
#include "reshard/layout/copy_box.hpp"

namespace reshard::exchange {

using layout::CopyBox;
using layout::Index;

/// Which of a box's places a buffer is.
enum class Side { kSource, kTarget };

/// From the source buffer to the target buffer; both begin at element 0 of their part.
void move_box(const CopyBox& box, std::int64_t element_bytes, std::span<const std::byte> source,
              std::span<std::byte> target);

/// From a buffer to `packed`: box.elements() elements in row-major order of the box.
void pack_box(const CopyBox& box, Side side, std::int64_t element_bytes, std::span<const std::byte> buffer,
              std::span<std::byte> packed);

/// The inverse of pack_box.
void unpack_box(const CopyBox& box, Side side, std::int64_t element_bytes, std::span<const std::byte> packed,
                std::span<std::byte> buffer);

/// The box's share in the raw CRC-64 register of its tensor (`tensor_elements` elements): the XOR over all boxes of a
/// tensor, finished, is its digest (base/crc64.hpp). Horner's rule over the gaps of the box: about 20 ns per contiguous
/// run plus the bytes at the library's speed.
std::uint64_t box_register(const CopyBox& box, Side side, std::int64_t element_bytes, std::span<const std::byte> buffer,
                           Index tensor_elements);

/// The same for elements that pack_box has packed.
std::uint64_t packed_register(const CopyBox& box, std::int64_t element_bytes, std::span<const std::byte> packed,
                              Index tensor_elements);

/// The register that the elements of a box will have when they are converted, from the buffer that holds them before:
/// what a conversion elsewhere is held against. A pass of its own, in pieces that stay in the cache.
std::uint64_t converted_register(const CopyBox& box, Side side, Dtype from, Dtype to, std::span<const std::byte> buffer,
                                 Index tensor_elements);

}  // namespace reshard::exchange
