#include "reshard/base/crc64.hpp"

#include <fmt/format.h>
#include <isa-l/crc64.h>

#include <array>
#include <unordered_map>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reshard::crc64 {
namespace {

// Registers are reflected: bit 63 is the coefficient of x^0, bit 0 that of x^63.
constexpr std::uint64_t kOne = std::uint64_t{1} << 63;
constexpr std::uint64_t kPolynomial = 0xc96c5795d7870f42;  // 42F0E1EBA9EA3693 reflected, x^64 implied

/// a * x modulo the polynomial.
constexpr std::uint64_t times_x(std::uint64_t a) {
  return (a >> 1) ^ ((a & 1) != 0 ? kPolynomial : 0);
}

/// Bit by bit: 64 steps. Used where the processor has no carry-less multiplication, and to build constants.
constexpr std::uint64_t multiply_bits(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  for (int i = 0; i < 64; ++i) {
    if ((b & kOne) != 0) out ^= a;
    b <<= 1;
    a = times_x(a);
  }
  return out;
}

/// x^(8 * 2^k) for k = 0 .. 62.
constexpr std::array<std::uint64_t, 63> make_powers() {
  std::array<std::uint64_t, 63> out{};
  std::uint64_t p = kOne;
  for (int i = 0; i < 8; ++i) p = times_x(p);
  for (std::uint64_t& power : out) {
    power = p;
    p = multiply_bits(p, p);
  }
  return out;
}

const std::array<std::uint64_t, 63>& powers() {
  static const std::array<std::uint64_t, 63> table = make_powers();
  return table;
}

#if defined(__x86_64__)

// Reduction of a 127-bit reflected product. Carry-less multiplication of two reflected 64-bit values a, b gives the
// reflected product shifted by one: result bits 0..126, of which bit 126 stands for x^0. Shifted left by one, the high
// half holds x^0..x^63 and the low half x^64..x^127, which is folded as low * x^64 mod P in two steps (Barrett): with
// mu = floor(x^128 / P) and P without its x^64 term.
struct Barrett {
  std::uint64_t mu;          // reflected, x^64 implied
  std::uint64_t polynomial;  // reflected, x^64 implied
};

/// floor(x^128 / P) without its leading x^64, reflected like a register: bit 63 is x^0.
constexpr std::uint64_t barrett_mu() {
  // Long division of x^128 by P = x^64 + p. `rest` holds the current 64 coefficients below the leading one.
  std::uint64_t quotient = 0;
  std::uint64_t rest = 0;
  constexpr std::uint64_t p = 0x42f0e1eba9ea3693;
  bool lead = true;  // coefficient of x^128, then of x^127, ...
  for (int i = 64; i >= 0; --i) {
    if (lead) {
      if (i < 64) quotient |= std::uint64_t{1} << i;
      rest ^= p;
    }
    lead = (rest >> 63) != 0;
    rest <<= 1;
  }
  std::uint64_t reflected = 0;
  for (int i = 0; i < 64; ++i)
    if ((quotient >> i & 1) != 0) reflected |= std::uint64_t{1} << (63 - i);
  return reflected;
}

constexpr std::uint64_t kMu = barrett_mu();

__attribute__((target("pclmul,sse4.1"))) std::uint64_t multiply_pclmul(std::uint64_t a, std::uint64_t b) {
  const auto load = [](std::uint64_t v) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_cvtsi64_si128(static_cast<long long>(v));
  };
  const __m128i product = _mm_clmulepi64_si128(load(a), load(b), 0);
  const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(product));
  const auto high = static_cast<std::uint64_t>(_mm_extract_epi64(product, 1));
  const std::uint64_t upper = (high << 1) | (low >> 63);  // x^0 .. x^63
  const std::uint64_t lower = low << 1;                   // x^64 .. x^127
  // q = floor(lower * x^64 / P): the terms of lower * mu at x^64 and above, plus lower itself (mu's x^64). In reflected
  // form the terms at x^64 and above of lower(x^0..63) * mu(x^0..63) are the low half of the shifted product.
  const __m128i lower_mu = _mm_clmulepi64_si128(load(lower), load(kMu), 0);
  const std::uint64_t q = lower ^ (static_cast<std::uint64_t>(_mm_cvtsi128_si64(lower_mu)) << 1);
  // lower * x^64 mod P = (q * P) mod x^64 = the terms below x^64 of q * p.
  const __m128i q_p = _mm_clmulepi64_si128(load(q), load(kPolynomial), 0);
  const auto q_low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(q_p));
  const auto q_high = static_cast<std::uint64_t>(_mm_extract_epi64(q_p, 1));
  return upper ^ ((q_high << 1) | (q_low >> 63));
}

bool has_pclmul() {
  static const bool yes = __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  return yes;
}

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return has_pclmul() ? multiply_pclmul(a, b) : multiply_bits(a, b);
}

#else

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return multiply_bits(a, b);
}

#endif

/// x^(8 * bytes).
std::uint64_t power(std::int64_t bytes) {
  std::uint64_t out = kOne;
  for (std::size_t k = 0; bytes > 0; ++k, bytes >>= 1)
    if ((bytes & 1) != 0) out = multiply(out, powers()[k]);
  return out;
}

}  // namespace

std::uint64_t raw(std::uint64_t seed, std::span<const std::byte> bytes) {
  return ~crc64_ecma_refl(~seed, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::uint64_t shift(std::uint64_t register_value, std::int64_t bytes) {
  return register_value == 0 ? 0 : multiply(register_value, power(bytes));
}

Shift::Shift(std::int64_t bytes) : factor_(power(bytes)) {}

std::uint64_t Shift::operator()(std::uint64_t register_value) const {
  return multiply(register_value, factor_);
}

std::uint64_t finish(std::uint64_t register_value, std::int64_t bytes) {
  return ~(register_value ^ shift(~std::uint64_t{0}, bytes));
}

std::uint64_t unfinish(std::uint64_t digest, std::int64_t bytes) {
  return ~digest ^ shift(~std::uint64_t{0}, bytes);
}

std::uint64_t digest(std::span<const std::byte> bytes) {
  return crc64_ecma_refl(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::string to_hex(std::uint64_t digest) {
  return fmt::format("{:016x}", digest);
}

}  // namespace reshard::crc64
