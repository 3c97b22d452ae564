#include "reshard/exchange/box.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "reshard/base/crc64.hpp"
#include "reshard/exchange/convert.hpp"

using namespace reshard;
using exchange::Side;
using layout::CopyBox;

namespace {

std::vector<std::byte> noise(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(random() >> 13);
  return out;
}

/// A box of the tensor [6, 5, 4]: rows 1..5, columns 2..4, depths 1..4, out of a source that stores [6, 5, 4] and into
/// a target that stores the box with one column in front: [4, 3, 3].
CopyBox sample() {
  CopyBox box;
  box.source_offset = 1 * 20 + 2 * 4 + 1;
  box.target_offset = 1 * 3;
  box.logical_offset = box.source_offset;
  box.dims = {{4, 20, 9, 20}, {2, 4, 3, 4}, {3, 1, 1, 1}};
  return box;
}

}  // namespace

TEST_CASE("a box moves element by element to its place and touches nothing else") {
  for (const std::int64_t element_bytes : {1, 2, 4, 8, 16}) {
    const auto eb = static_cast<std::size_t>(element_bytes);
    const std::vector<std::byte> source = noise(120 * eb, 1);
    const std::vector<std::byte> before = noise(36 * eb, 2);
    std::vector<std::byte> expected = before;
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < 2; ++j)
        for (std::size_t k = 0; k < 3; ++k)
          for (std::size_t b = 0; b < eb; ++b)
            expected[(i * 9 + (j + 1) * 3 + k) * eb + b] = source[((i + 1) * 20 + (j + 2) * 4 + k + 1) * eb + b];
    std::vector<std::byte> target = before;
    exchange::move_box(sample(), element_bytes, source, target);
    CHECK(target == expected);

    std::vector<std::byte> packed(24 * eb);
    exchange::pack_box(sample(), Side::kSource, element_bytes, source, packed);
    target = before;
    exchange::unpack_box(sample(), Side::kTarget, element_bytes, packed, target);
    CHECK(target == expected);
    std::vector<std::byte> again(24 * eb);
    exchange::pack_box(sample(), Side::kTarget, element_bytes, target, again);
    CHECK(again == packed);
  }
}

TEST_CASE("a box may have gaps in every dim, on both sides") {
  CopyBox box;
  box.dims = {{2, 60, 12, 60}, {3, 20, 4, 20}, {2, 4, 2, 4}};
  const std::vector<std::byte> source = noise(120, 5);
  std::vector<std::byte> target(24);
  std::vector<std::byte> expected = target;
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t k = 0; k < 2; ++k) expected[i * 12 + j * 4 + k * 2] = source[i * 60 + j * 20 + k * 4];
  exchange::move_box(box, 1, source, target);
  CHECK(target == expected);
}

TEST_CASE("the registers of a tensor's boxes join to its digest, from either buffer") {
  for (const std::int64_t element_bytes : {1, 2, 8}) {
    const auto eb = static_cast<std::size_t>(element_bytes);
    const std::vector<std::byte> tensor = noise(120 * eb, 3);
    // The tensor [6, 5, 4] in four boxes: rows 0..2 and 2..6, columns 0..3 and 3..5.
    std::uint64_t from_source = 0;
    std::uint64_t from_target = 0;
    std::uint64_t from_packed = 0;
    for (const std::int64_t row : {0, 2})
      for (const std::int64_t column : {0, 3}) {
        CopyBox box;
        box.source_offset = box.logical_offset = row * 20 + column * 4;
        const std::int64_t rows = row == 0 ? 2 : 4;
        const std::int64_t columns = column == 0 ? 3 : 2;
        box.dims = {{rows, 20, columns * 4, 20}, {columns, 4, 4, 4}, {4, 1, 1, 1}};
        std::vector<std::byte> packed(static_cast<std::size_t>(box.elements()) * eb);
        std::vector<std::byte> target(packed.size());
        exchange::move_box(box, element_bytes, tensor, target);
        exchange::pack_box(box, Side::kSource, element_bytes, tensor, packed);
        from_source ^= exchange::box_register(box, Side::kSource, element_bytes, tensor, 120);
        from_target ^= exchange::box_register(box, Side::kTarget, element_bytes, target, 120);
        from_packed ^= exchange::packed_register(box, element_bytes, packed, 120);
        CHECK(layout::flattened(box).dims.size() == 2);
        CHECK(exchange::box_register(layout::flattened(box), Side::kSource, element_bytes, tensor, 120) ==
              exchange::box_register(box, Side::kSource, element_bytes, tensor, 120));
      }
    const std::uint64_t expected = crc64::digest(tensor);
    CHECK(crc64::finish(from_source, 120 * element_bytes) == expected);
    CHECK(crc64::finish(from_target, 120 * element_bytes) == expected);
    CHECK(crc64::finish(from_packed, 120 * element_bytes) == expected);
  }
}

TEST_CASE("a column one element wide is a box as any other") {
  CopyBox box;
  box.source_offset = 3;
  box.logical_offset = 3;
  box.dims = {{5, 4, 1, 4}, {1, 1, 1, 1}};
  const std::vector<std::byte> source = noise(40, 4);
  std::vector<std::byte> target(10);
  exchange::move_box(layout::flattened(box), 2, source, target);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(target[2 * i] == source[(4 * i + 3) * 2]);
    CHECK(target[2 * i + 1] == source[(4 * i + 3) * 2 + 1]);
  }
  CHECK(exchange::box_register(layout::flattened(box), Side::kSource, 2, source, 20) ==
        exchange::box_register(layout::flattened(box), Side::kTarget, 2, target, 20));
}

TEST_CASE("the register of a box as it will be converted is that of the box once it is converted") {
  // A run of more elements than are converted at a time, and the strided box.
  CopyBox line;
  line.source_offset = 3;
  line.target_offset = 0;
  line.logical_offset = 3;
  line.dims = {{5000, 1, 1, 1}};
  for (const auto& [from, to] : {std::pair(Dtype::kF32, Dtype::kBf16), std::pair(Dtype::kF16, Dtype::kF64),
                                 std::pair(Dtype::kF64, Dtype::kF32), std::pair(Dtype::kBf16, Dtype::kF16)})
    for (const auto& [box, elements] : {std::pair(sample(), 120), std::pair(line, 5003)}) {
      const auto from_bytes = static_cast<std::size_t>(size_bytes(from));
      const auto to_bytes = static_cast<std::size_t>(size_bytes(to));
      const std::vector<std::byte> source = noise(static_cast<std::size_t>(elements) * from_bytes, 5);
      std::vector<std::byte> packed(static_cast<std::size_t>(box.elements()) * from_bytes);
      exchange::pack_box(box, Side::kSource, size_bytes(from), source, packed);
      std::vector<std::byte> converted(static_cast<std::size_t>(box.elements()) * to_bytes);
      exchange::convert(from, packed, to, converted);
      CHECK(exchange::converted_register(box, Side::kSource, from, to, source, elements) ==
            exchange::packed_register(box, size_bytes(to), converted, elements));
    }
}
