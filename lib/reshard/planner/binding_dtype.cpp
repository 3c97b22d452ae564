#include "reshard/planner/binding_dtype.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace reshard::planner {
namespace {

/// Binary floating point: mantissa_bits after the point, smallest normal number 2^min_exponent.
struct FloatFormat {
  int mantissa_bits;
  int min_exponent;
  double max;
};

std::optional<FloatFormat> float_format(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
    case Dtype::kC128:
      return FloatFormat{52, -1022, std::numeric_limits<double>::max()};
    case Dtype::kF32:
    case Dtype::kC64:
      return FloatFormat{23, -126, static_cast<double>(std::numeric_limits<float>::max())};
    case Dtype::kBf16:
      return FloatFormat{7, -126, 0x1.fep127};
    case Dtype::kF16:
      return FloatFormat{10, -14, 65504};
    case Dtype::kF8E5M2:
      return FloatFormat{2, -14, 57344};
    case Dtype::kF8E5M2Fnuz:
      return FloatFormat{2, -15, 57344};
    case Dtype::kF8E4M3:
      return FloatFormat{3, -6, 448};
    case Dtype::kF8E4M3Fnuz:
      return FloatFormat{3, -7, 240};
    default:
      return std::nullopt;
  }
}

bool is_signed(Dtype dtype) {
  return dtype == Dtype::kI8 || dtype == Dtype::kI16 || dtype == Dtype::kI32 || dtype == Dtype::kI64;
}

bool has_negative_zero(Dtype dtype) {
  return dtype != Dtype::kF8E4M3Fnuz && dtype != Dtype::kF8E5M2Fnuz;
}

/// Sign, exponent and mantissa of a value that the format holds exactly, `bits` wide.
std::uint64_t float_bits(const FloatFormat& format, int bits, double value, bool negative_zero) {
  const bool negative = std::signbit(value) && (value != 0 || negative_zero);
  const std::uint64_t sign = negative ? std::uint64_t{1} << (bits - 1) : 0;
  if (value == 0) return sign;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int scale = std::max(exponent - 1, format.min_exponent);
  // In units of the last place; a normal number's leading one adds 1 to the exponent field, which begins at 0 for
  // subnormals.
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(std::abs(value), format.mantissa_bits - scale));
  return sign | ((static_cast<std::uint64_t>(scale - format.min_exponent) << format.mantissa_bits) + mantissa);
}

}  // namespace

bool narrows(Dtype from, Dtype to) {
  const FloatFormat a = *float_format(from);
  const FloatFormat b = *float_format(to);
  return b.mantissa_bits < a.mantissa_bits || b.min_exponent > a.min_exponent || b.max < a.max;
}

bool holds_exactly(Dtype dtype, double value) {
  if (!std::isfinite(value)) return false;
  if (dtype == Dtype::kBool) return value == 0 || value == 1;
  int exponent = 0;  // value = m * 2^exponent with 0.5 <= |m| < 1
  const double mantissa = std::frexp(value, &exponent);
  if (dtype == Dtype::kF8E8M0) return mantissa == 0.5 && exponent - 1 >= -127 && exponent - 1 <= 127;
  if (const auto format = float_format(dtype)) {
    if (std::abs(value) > format->max) return false;
    // 0.1875 = 1.1b * 2^-3: a multiple of the last place 2^(-3 - mantissa_bits).
    const int last_place = std::max(exponent - 1, format->min_exponent) - format->mantissa_bits;
    const double scaled = std::ldexp(mantissa, exponent - last_place);
    return scaled == std::trunc(scaled);
  }
  const int bits = static_cast<int>(8 * size_bytes(dtype)) - (is_signed(dtype) ? 1 : 0);
  const double limit = std::ldexp(1.0, bits);
  return value == std::trunc(value) && value < limit && value >= (is_signed(dtype) ? -limit : 0.0);
}

std::vector<std::byte> element_of(Dtype dtype, double value) {
  const bool complex = dtype == Dtype::kC64 || dtype == Dtype::kC128;
  const auto bytes = static_cast<std::size_t>(size_bytes(dtype)) / (complex ? 2 : 1);
  std::uint64_t bits = 0;
  if (dtype == Dtype::kF8E8M0) {
    bits = static_cast<std::uint64_t>(std::ilogb(value) + 127);
  } else if (const auto format = float_format(dtype)) {
    bits = float_bits(*format, static_cast<int>(8 * bytes), value, has_negative_zero(dtype));
  } else if (value < 0) {
    bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  } else {
    bits = static_cast<std::uint64_t>(value);
  }
  std::vector<std::byte> out(static_cast<std::size_t>(size_bytes(dtype)));
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(bits >> (8 * i) & 0xff);
  return out;
}

}  // namespace reshard::planner
