#pragma once
// Conversion between f64, f32, f16 and bf16: one rounding from the source value, to nearest even; overflow to infinity;
// subnormals kept; NaN becomes a quiet NaN with its sign and the high bits of its payload (plan format section 4,
// `dtype`).

#include <cstddef>
#include <cstdint>
#include <span>

#include "reshard/base/dtype.hpp"
#include "reshard/exchange/host_device.hpp"

namespace reshard::exchange {

/// Converts out.size() / size_bytes(to) elements. Both dtypes are convertible and differ. Memory need not be aligned.
void convert(Dtype from, std::span<const std::byte> in, Dtype to, std::span<std::byte> out);

/// One value between IEEE-like binary formats given by their widths: the arithmetic behind `convert`, shared with
/// device code. `bits` holds a value with `from_exponent` exponent and `from_mantissa` mantissa bits.
template <int kFromExponent, int kFromMantissa, int kToExponent, int kToMantissa>
RESHARD_HOST_DEVICE constexpr std::uint64_t convert_bits(std::uint64_t bits) {
  constexpr std::uint64_t one = 1;
  constexpr std::uint64_t from_exponent_mask = (one << kFromExponent) - 1;
  constexpr std::uint64_t to_exponent_mask = (one << kToExponent) - 1;
  constexpr std::uint64_t from_mantissa_mask = (one << kFromMantissa) - 1;
  constexpr int from_bias = (1 << (kFromExponent - 1)) - 1;
  constexpr int to_bias = (1 << (kToExponent - 1)) - 1;

  // bf16 to f32 appends bits.
  if constexpr (kFromExponent == kToExponent && kFromMantissa < kToMantissa) {
    const bool is_nan = (bits & ((one << (kFromExponent + kFromMantissa)) - 1)) > from_exponent_mask << kFromMantissa;
    return bits << (kToMantissa - kFromMantissa) | static_cast<std::uint64_t>(is_nan) << (kToMantissa - 1);
  }

  const std::uint64_t sign = (bits >> (kFromExponent + kFromMantissa) & 1) << (kToExponent + kToMantissa);
  const std::uint64_t exponent = bits >> kFromMantissa & from_exponent_mask;
  std::uint64_t mantissa = bits & from_mantissa_mask;

  if (exponent == from_exponent_mask) {  // infinity or NaN
    if (mantissa == 0) return sign | to_exponent_mask << kToMantissa;
    const std::uint64_t payload = kFromMantissa >= kToMantissa ? mantissa >> (kFromMantissa - kToMantissa)
                                                               : mantissa << (kToMantissa - kFromMantissa);
    return sign | to_exponent_mask << kToMantissa | one << (kToMantissa - 1) | payload;
  }
  if (exponent == 0 && mantissa == 0) return sign;

  // value = mantissa * 2^(e - kFromMantissa), mantissa with its leading one at bit kFromMantissa
  int e = static_cast<int>(exponent) - from_bias;
  if (exponent == 0) {
    e = 1 - from_bias;
    while ((mantissa >> kFromMantissa) == 0) {
      mantissa <<= 1;
      --e;
    }
  } else {
    mantissa |= one << kFromMantissa;
  }

  // Shift right by `drop` bits so that the leading one lands at bit kToMantissa, further for subnormal results.
  int drop = kFromMantissa - kToMantissa;
  const bool subnormal = e < 1 - to_bias;
  if (subnormal) drop += 1 - to_bias - e;
  std::uint64_t rounded = 0;
  if (drop <= 0) {
    rounded = mantissa << -drop;
  } else if (drop > kFromMantissa + 1) {
    rounded = 0;  // below half of the smallest subnormal
  } else {
    const std::uint64_t half = one << (drop - 1);
    const std::uint64_t rest = mantissa & ((one << drop) - 1);
    rounded = mantissa >> drop;
    if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
  }
  // A carry out of the mantissa moves into the exponent by itself: 1.11..1 rounds up to 10.0, a subnormal to the
  // smallest normal.
  const std::uint64_t biased = subnormal ? 0 : static_cast<std::uint64_t>(e + to_bias) - 1;
  if (!subnormal && e + to_bias >= static_cast<int>(to_exponent_mask)) return sign | to_exponent_mask << kToMantissa;
  const std::uint64_t out = (biased << kToMantissa) + rounded;
  if (out >= to_exponent_mask << kToMantissa) return sign | to_exponent_mask << kToMantissa;
  return sign | out;
}

/// The dtypes between which `convert` converts.
namespace binary {

template <typename W, int kExponent, int kMantissa>
struct Binary {
  using Word = W;
  static constexpr int exponent = kExponent;
  static constexpr int mantissa = kMantissa;
};
using F64 = Binary<std::uint64_t, 11, 52>;
using F32 = Binary<std::uint32_t, 8, 23>;
using F16 = Binary<std::uint16_t, 5, 10>;
using Bf16 = Binary<std::uint16_t, 8, 7>;

}  // namespace binary

template <typename From, typename To>
RESHARD_HOST_DEVICE constexpr typename To::Word convert_value(typename From::Word bits) {
  return static_cast<typename To::Word>(convert_bits<From::exponent, From::mantissa, To::exponent, To::mantissa>(bits));
}

}  // namespace reshard::exchange
