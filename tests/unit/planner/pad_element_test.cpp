#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "reshard/planner/binding_dtype.hpp"

using namespace reshard;

namespace {

/// The element as a number is written: most significant byte first.
std::string element(Dtype dtype, double value) {
  std::string out;
  for (const std::byte byte : planner::element_of(dtype, value))
    out.insert(0, fmt::format("{:02x}", static_cast<unsigned>(byte)));
  return out;
}

}  // namespace

TEST_CASE("a padding value is the element that its dtype has for it") {
  CHECK(element(Dtype::kF64, -1.5) == "bff8000000000000");
  CHECK(element(Dtype::kF64, 0x1p-1074) == "0000000000000001");
  CHECK(element(Dtype::kF32, -100) == "c2c80000");
  CHECK(element(Dtype::kF32, 0x1p-149) == "00000001");
  CHECK(element(Dtype::kBf16, 1) == "3f80");
  CHECK(element(Dtype::kBf16, 0x1.fep127) == "7f7f");
  CHECK(element(Dtype::kF16, 65504) == "7bff");
  CHECK(element(Dtype::kF16, 0x1p-24) == "0001");
  CHECK(element(Dtype::kF16, 0x1p-14) == "0400");
  CHECK(element(Dtype::kF16, -0.0) == "8000");
  CHECK(element(Dtype::kF8E4M3, 448) == "7e");
  CHECK(element(Dtype::kF8E4M3, 0x1p-9) == "01");
  CHECK(element(Dtype::kF8E5M2, -57344) == "fb");
  CHECK(element(Dtype::kF8E4M3Fnuz, 240) == "7f");
  CHECK(element(Dtype::kF8E4M3Fnuz, 1) == "40");
  CHECK(element(Dtype::kF8E5M2Fnuz, 57344) == "7f");
  CHECK(element(Dtype::kF8E8M0, 1) == "7f");
  CHECK(element(Dtype::kF8E8M0, 0x1p-127) == "00");
  CHECK(element(Dtype::kBool, 1) == "01");
  CHECK(element(Dtype::kU8, 255) == "ff");
  CHECK(element(Dtype::kI8, -128) == "80");
  CHECK(element(Dtype::kI16, -100) == "ff9c");
  CHECK(element(Dtype::kI64, -100) == "ffffffffffffff9c");
  CHECK(element(Dtype::kU64, 0x1p63) == "8000000000000000");
  CHECK(element(Dtype::kC64, 2) == "0000000040000000");  // the real part comes first in memory
}

TEST_CASE("a zero of a format without a negative one is plain zero: its sign bit alone would be NaN") {
  CHECK(element(Dtype::kF8E4M3Fnuz, -0.0) == "00");
  CHECK(element(Dtype::kF8E5M2Fnuz, -0.0) == "00");
}
