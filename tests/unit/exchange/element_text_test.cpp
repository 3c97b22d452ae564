#include "reshard/exchange/element_text.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

using namespace reshard;

namespace {

template <typename Bits>
std::string text(Dtype dtype, Bits bits) {
  std::vector<std::byte> element(sizeof bits);
  std::memcpy(element.data(), &bits, sizeof bits);
  return exchange::element_text(dtype, element);
}

using U8 = std::uint8_t;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

}  // namespace

TEST_CASE("integers and bools") {
  CHECK(text(Dtype::kU8, U8{255}) == "255");
  CHECK(text(Dtype::kI8, U8{255}) == "-1");
  CHECK(text(Dtype::kI16, U16{0x8000}) == "-32768");
  CHECK(text(Dtype::kU32, U32{0xffffffff}) == "4294967295");
  CHECK(text(Dtype::kI64, U64{1} << 63) == "-9223372036854775808");
  CHECK(text(Dtype::kU64, U64{1} << 63) == "9223372036854775808");
  CHECK(text(Dtype::kBool, U8{0}) == "false");
  CHECK(text(Dtype::kBool, U8{1}) == "true");
  CHECK(text(Dtype::kBool, U8{2}) == "2");
}

TEST_CASE("floats of four and eight bytes are the shortest text that is this number") {
  CHECK(text(Dtype::kF32, U32{0x3fc00000}) == "1.5");
  CHECK(text(Dtype::kF32, U32{0x3dcccccd}) == "0.1");
  CHECK(text(Dtype::kF32, U32{0x80000000}) == "-0");
  CHECK(text(Dtype::kF32, U32{0xff800000}) == "-inf");
  CHECK(text(Dtype::kF32, U32{0x7fc00001}) == "nan (0x7fc00001)");
  CHECK(text(Dtype::kF64, U64{0x3fb999999999999a}) == "0.1");
  CHECK(text(Dtype::kF64, U64{0xfff8000000000000}) == "nan (0xfff8000000000000)");
}

TEST_CASE("sixteen-bit floats") {
  CHECK(text(Dtype::kF16, U16{0x3e00}) == "1.5");
  CHECK(text(Dtype::kF16, U16{0x7bff}) == "65504");
  CHECK(text(Dtype::kF16, U16{0x0001}) == "5.9604645e-08");  // 2^-24
  CHECK(text(Dtype::kF16, U16{0x7c00}) == "inf");
  CHECK(text(Dtype::kF16, U16{0xfe01}) == "nan (0xfe01)");
  CHECK(text(Dtype::kBf16, U16{0xbfc0}) == "-1.5");
  CHECK(text(Dtype::kBf16, U16{0x0001}) == "9.1835e-41");  // 2^-133
  CHECK(text(Dtype::kBf16, U16{0x8000}) == "-0");
}

TEST_CASE("eight-bit floats: OCP and fnuz") {
  CHECK(text(Dtype::kF8E4M3, U8{0x7e}) == "448");
  CHECK(text(Dtype::kF8E4M3, U8{0x01}) == "0.001953125");  // 2^-9
  CHECK(text(Dtype::kF8E4M3, U8{0xff}) == "nan (0xff)");
  CHECK(text(Dtype::kF8E5M2, U8{0x7b}) == "57344");
  CHECK(text(Dtype::kF8E5M2, U8{0xfc}) == "-inf");
  CHECK(text(Dtype::kF8E8M0, U8{127}) == "1");
  CHECK(text(Dtype::kF8E8M0, U8{0xff}) == "nan (0xff)");
  CHECK(text(Dtype::kF8E4M3Fnuz, U8{0x7f}) == "240");
  CHECK(text(Dtype::kF8E4M3Fnuz, U8{0x80}) == "nan (0x80)");
  CHECK(text(Dtype::kF8E5M2Fnuz, U8{0x7f}) == "57344");
}

TEST_CASE("complex numbers") {
  CHECK(text(Dtype::kC64, U64{0xc0000000'3fc00000}) == "(1.5, -2)");
}
