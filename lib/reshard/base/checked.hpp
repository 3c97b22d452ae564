#pragma once
// 64-bit arithmetic on numbers that come from a file or a plan: a result beyond 63 bits is E_OVERFLOW, never a wrap.

#include <cstdint>
#include <span>
#include <string>

#include "reshard/base/error.hpp"

namespace reshard {

[[noreturn]] inline void overflow_error(std::int64_t a, char op, std::int64_t b) {
  throw Error(Issue{ErrorCode::kOverflow, "", kNoTensor,
                    std::to_string(a) + ' ' + op + ' ' + std::to_string(b) + " does not fit 63 bits"});
}

inline std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) overflow_error(a, '+', b);
  return out;
}

inline std::int64_t checked_sub(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_sub_overflow(a, b, &out)) overflow_error(a, '-', b);
  return out;
}

inline std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) overflow_error(a, '*', b);
  return out;
}

/// Product of extents, 1 for none. A zero extent gives 0 whatever the others are.
inline std::int64_t checked_product(std::span<const std::int64_t> extents) {
  for (const std::int64_t extent : extents)
    if (extent == 0) return 0;
  std::int64_t out = 1;
  for (const std::int64_t extent : extents) out = checked_mul(out, extent);
  return out;
}

/// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace reshard
