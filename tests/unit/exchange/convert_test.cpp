#include "reshard/exchange/convert.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

using namespace reshard;

namespace {

template <typename Out, typename In>
Out converted(Dtype from, In in, Dtype to) {
  Out out{};
  exchange::convert(from, std::as_bytes(std::span(&in, 1)), to, std::as_writable_bytes(std::span(&out, 1)));
  return out;
}

/// The value of bf16 or f16 bits, exactly.
double value(Dtype dtype, std::uint16_t bits) {
  const int mantissa_bits = dtype == Dtype::kBf16 ? 7 : 10;
  const int exponent_bits = 15 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

/// Nearest 16-bit number, ties to the even one, found by looking at all neighbours of the value: finite inputs only.
std::uint16_t nearest(Dtype dtype, double x) {
  const std::uint16_t infinity = dtype == Dtype::kBf16 ? 0x7f80 : 0x7c00;
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  x = std::fabs(x);
  std::uint16_t low = 0;  // the largest number not above x, by bisection over the ordered bit patterns
  std::uint16_t high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value(dtype, middle) <= x ? low : high) = middle;
  }
  const double below = x - value(dtype, low);
  // Beyond the largest finite number the next step would be as wide as the last one.
  const double next = high == infinity
                          ? value(dtype, low) + (value(dtype, low) - value(dtype, static_cast<std::uint16_t>(low - 1)))
                          : value(dtype, high);
  const double above = next - x;
  const bool up = above < below || (above == below && (low & 1) != 0);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

bool is_nan(Dtype dtype, std::uint16_t bits) {
  return (bits & 0x7fff) > (dtype == Dtype::kBf16 ? 0x7f80 : 0x7c00);
}

}  // namespace

TEST_CASE("every f16 and bf16 widens to the f32 and f64 of the same value") {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    const std::uint16_t infinity = dtype == Dtype::kBf16 ? 0x7f80 : 0x7c00;
    for (int i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const auto single = converted<float>(dtype, bits, Dtype::kF32);
      const auto wide = converted<double>(dtype, bits, Dtype::kF64);
      if (is_nan(dtype, bits)) {
        REQUIRE(std::isnan(single));
        REQUIRE(std::isnan(wide));
        REQUIRE(std::signbit(single) == ((bits & 0x8000) != 0));
      } else if ((bits & 0x7fff) == infinity) {
        REQUIRE(std::isinf(single));
        REQUIRE(std::signbit(wide) == ((bits & 0x8000) != 0));
      } else {
        REQUIRE(static_cast<double>(single) == value(dtype, bits));
        REQUIRE(wide == value(dtype, bits));
        REQUIRE(std::signbit(wide) == ((bits & 0x8000) != 0));
        REQUIRE(converted<std::uint16_t>(Dtype::kF32, single, dtype) == bits);
      }
    }
  }
}

TEST_CASE("f64 to f32 rounds as the processor does, subnormals and overflow included") {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200000; ++i) {
    const auto x = std::bit_cast<double>(random());
    const auto y = std::ldexp(std::bit_cast<double>((random() & 0xfffffffffffffULL) | 0x3ff0000000000000ULL),
                              static_cast<int>(random() % 320) - 160);
    for (const double v : {x, y, -y}) {
      if (std::isnan(v)) continue;
      REQUIRE(std::bit_cast<std::uint32_t>(converted<float>(Dtype::kF64, v, Dtype::kF32)) ==
              std::bit_cast<std::uint32_t>(static_cast<float>(v)));
    }
  }
}

TEST_CASE("narrowing to 16 bits takes the nearest number once, ties to even") {
  std::mt19937_64 random(12);
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    for (int i = 0; i < 60000; ++i) {
      const auto bits = static_cast<std::uint16_t>(random() % 0x7c00);
      const double a = value(dtype, bits);
      const double b = value(dtype, static_cast<std::uint16_t>(bits + 1));
      const double middle = a + (b - a) / 2;
      for (const double v : {a, middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e300), -middle}) {
        REQUIRE(converted<std::uint16_t>(Dtype::kF64, v, dtype) == nearest(dtype, v));
        const auto single = static_cast<float>(v);
        REQUIRE(converted<std::uint16_t>(Dtype::kF32, single, dtype) == nearest(dtype, static_cast<double>(single)));
      }
    }
  }
}

TEST_CASE("what is too large becomes infinity, what is too small zero with its sign") {
  CHECK(converted<std::uint16_t>(Dtype::kF32, 65519.0F, Dtype::kF16) == 0x7bff);
  CHECK(converted<std::uint16_t>(Dtype::kF32, 65520.0F, Dtype::kF16) == 0x7c00);
  CHECK(converted<std::uint16_t>(Dtype::kF64, -1e300, Dtype::kBf16) == 0xff80);
  CHECK(converted<std::uint16_t>(Dtype::kF32, std::numeric_limits<float>::max(), Dtype::kBf16) == 0x7f80);
  CHECK(converted<std::uint16_t>(Dtype::kF32, -1e-30F, Dtype::kF16) == 0x8000);
  CHECK(converted<std::uint16_t>(Dtype::kF32, 0x1p-24F, Dtype::kF16) == 0x0001);
  CHECK(converted<std::uint16_t>(Dtype::kF32, 0x1p-25F, Dtype::kF16) == 0x0000);
  CHECK(converted<std::uint16_t>(Dtype::kF32, 0x1.8p-25F, Dtype::kF16) == 0x0001);
  CHECK(converted<float>(Dtype::kF64, 5e-324, Dtype::kF32) == 0.0F);
}

TEST_CASE("NaN becomes a quiet NaN with its sign and the high bits of its payload") {
  // f32 signalling NaN with payload 0x200001 -> quiet bit set, payload shifted to 7 bits.
  CHECK(converted<std::uint16_t>(Dtype::kF32, std::uint32_t{0xffa00001}, Dtype::kBf16) == 0xffe0);
  CHECK(converted<std::uint16_t>(Dtype::kF32, std::uint32_t{0x7f800001}, Dtype::kF16) == 0x7e00);
  CHECK(converted<std::uint32_t>(Dtype::kBf16, std::uint16_t{0x7f81}, Dtype::kF32) == 0x7fc10000);
  CHECK(converted<std::uint64_t>(Dtype::kF16, std::uint16_t{0xfe01}, Dtype::kF64) == 0xfff8040000000000);
}
