#include "reshard/exchange/convert.hpp"

#include <cstring>

#include "reshard/base/error.hpp"

namespace reshard::exchange {
namespace {

template <typename Word, int kExponent, int kMantissa>
struct Binary {
  using word = Word;
  static constexpr int exponent = kExponent;
  static constexpr int mantissa = kMantissa;
};
using F64 = Binary<std::uint64_t, 11, 52>;
using F32 = Binary<std::uint32_t, 8, 23>;
using F16 = Binary<std::uint16_t, 5, 10>;
using Bf16 = Binary<std::uint16_t, 8, 7>;

template <typename From, typename To>
void convert_all(std::span<const std::byte> in, std::span<std::byte> out) {
  using In = typename From::word;
  using Out = typename To::word;
  const std::size_t count = out.size() / sizeof(Out);
  for (std::size_t i = 0; i < count; ++i) {
    In from;
    std::memcpy(&from, in.data() + i * sizeof(In), sizeof(In));
    const auto to = static_cast<Out>(convert_bits<From::exponent, From::mantissa, To::exponent, To::mantissa>(from));
    std::memcpy(out.data() + i * sizeof(Out), &to, sizeof(Out));
  }
}

template <typename From>
void convert_from(std::span<const std::byte> in, Dtype to, std::span<std::byte> out) {
  switch (to) {
    case Dtype::kF64:
      return convert_all<From, F64>(in, out);
    case Dtype::kF32:
      return convert_all<From, F32>(in, out);
    case Dtype::kF16:
      return convert_all<From, F16>(in, out);
    case Dtype::kBf16:
      return convert_all<From, Bf16>(in, out);
    default:
      internal_error("conversion to a dtype that is none of f64, f32, f16, bf16");
  }
}

}  // namespace

void convert(Dtype from, std::span<const std::byte> in, Dtype to, std::span<std::byte> out) {
  switch (from) {
    case Dtype::kF64:
      return convert_from<F64>(in, to, out);
    case Dtype::kF32:
      return convert_from<F32>(in, to, out);
    case Dtype::kF16:
      return convert_from<F16>(in, to, out);
    case Dtype::kBf16:
      return convert_from<Bf16>(in, to, out);
    default:
      internal_error("conversion from a dtype that is none of f64, f32, f16, bf16");
  }
}

}  // namespace reshard::exchange
