#include "reshard/planner/binding_dtype.hpp"

#include <algorithm>
#include <cmath>
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

}  // namespace reshard::planner
