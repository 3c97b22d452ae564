#include "reshard/exchange/element_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "reshard/base/error.hpp"

namespace reshard::exchange {
namespace {

template <typename Number>
Number number_of(std::span<const std::byte> element) {
  Number out;
  std::memcpy(&out, element.data(), sizeof out);
  return out;
}

/// Little-endian bits of up to 8 bytes.
std::uint64_t bits_of(std::span<const std::byte> element) {
  std::uint64_t out = 0;
  std::memcpy(&out, element.data(), element.size());
  return out;
}

std::string nan_text(std::span<const std::byte> element) {
  return fmt::format("nan (0x{:0{}x})", bits_of(element), 2 * element.size());
}

/// Shortest among the numbers of `Number`, which holds every number of the dtype.
template <typename Number>
std::string float_text(Number value, std::span<const std::byte> element) {
  return std::isnan(value) ? nan_text(element) : fmt::format("{}", value);
}

/// A sign, `exponent_bits`, `mantissa_bits`; subnormals; no infinity and no NaN, which differ from format to format.
float finite(std::uint64_t bits, int exponent_bits, int mantissa_bits, int bias) {
  const auto mantissa = static_cast<int>(bits & ((std::uint64_t{1} << mantissa_bits) - 1));
  const auto exponent = static_cast<int>(bits >> mantissa_bits & ((std::uint64_t{1} << exponent_bits) - 1));
  const bool negative = (bits >> (exponent_bits + mantissa_bits) & 1) != 0;
  const int leading = exponent == 0 ? 0 : 1 << mantissa_bits;
  const float value = std::ldexp(static_cast<float>(leading + mantissa), std::max(exponent, 1) - bias - mantissa_bits);
  return negative ? -value : value;
}

/// With infinities and NaNs at the largest exponent, as IEEE 754 has them.
float ieee(std::uint64_t bits, int exponent_bits, int mantissa_bits) {
  const std::uint64_t mask = (std::uint64_t{1} << exponent_bits) - 1;
  if ((bits >> mantissa_bits & mask) != mask)
    return finite(bits, exponent_bits, mantissa_bits, (1 << (exponent_bits - 1)) - 1);
  if ((bits & ((std::uint64_t{1} << mantissa_bits) - 1)) != 0) return std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  return (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -infinity : infinity;
}

/// OCP and "fnuz" 8-bit floats and 16-bit ones, as f32, which holds them all.
float small_float(Dtype dtype, std::uint64_t bits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  switch (dtype) {
    case Dtype::kF16:
      return ieee(bits, 5, 10);
    case Dtype::kBf16:
      return ieee(bits, 8, 7);
    case Dtype::kF8E5M2:
      return ieee(bits, 5, 2);
    case Dtype::kF8E4M3:  // no infinity; S.1111.111 is NaN
      return (bits & 0x7f) == 0x7f ? kNan : finite(bits, 4, 3, 7);
    case Dtype::kF8E8M0:  // a power of two
      return bits == 0xff ? kNan : std::ldexp(1.0F, static_cast<int>(bits) - 127);
    case Dtype::kF8E4M3Fnuz:  // no infinity, no negative zero: that one is NaN
      return bits == 0x80 ? kNan : finite(bits, 4, 3, 8);
    case Dtype::kF8E5M2Fnuz:
      return bits == 0x80 ? kNan : finite(bits, 5, 2, 16);
    default:
      internal_error("a dtype that is no small float");
  }
}

}  // namespace

std::string element_text(Dtype dtype, std::span<const std::byte> element) {
  switch (dtype) {
    case Dtype::kBool: {
      const auto value = number_of<std::uint8_t>(element);
      return value > 1 ? fmt::format("{}", value) : value == 1 ? "true" : "false";
    }
    case Dtype::kU8:
      return fmt::format("{}", number_of<std::uint8_t>(element));
    case Dtype::kI8:
      return fmt::format("{}", number_of<std::int8_t>(element));
    case Dtype::kU16:
      return fmt::format("{}", number_of<std::uint16_t>(element));
    case Dtype::kI16:
      return fmt::format("{}", number_of<std::int16_t>(element));
    case Dtype::kU32:
      return fmt::format("{}", number_of<std::uint32_t>(element));
    case Dtype::kI32:
      return fmt::format("{}", number_of<std::int32_t>(element));
    case Dtype::kU64:
      return fmt::format("{}", number_of<std::uint64_t>(element));
    case Dtype::kI64:
      return fmt::format("{}", number_of<std::int64_t>(element));
    case Dtype::kF32:
      return float_text(number_of<float>(element), element);
    case Dtype::kF64:
      return float_text(number_of<double>(element), element);
    case Dtype::kC64:
      return fmt::format("({}, {})", element_text(Dtype::kF32, element.first(4)),
                         element_text(Dtype::kF32, element.last(4)));
    case Dtype::kC128:
      return fmt::format("({}, {})", element_text(Dtype::kF64, element.first(8)),
                         element_text(Dtype::kF64, element.last(8)));
    case Dtype::kF8E4M3:
    case Dtype::kF8E5M2:
    case Dtype::kF8E8M0:
    case Dtype::kF8E4M3Fnuz:
    case Dtype::kF8E5M2Fnuz:
    case Dtype::kF16:
    case Dtype::kBf16:
      return float_text(small_float(dtype, bits_of(element)), element);
  }
  internal_error("a dtype without a text");
}

}  // namespace reshard::exchange
