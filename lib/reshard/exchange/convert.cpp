#include "reshard/exchange/convert.hpp"

#include <cstring>

#include "reshard/base/error.hpp"

namespace reshard::exchange {
namespace {

using binary::Bf16;
using binary::F16;
using binary::F32;
using binary::F64;

template <typename From, typename To>
void convert_all(std::span<const std::byte> in, std::span<std::byte> out) {
  using In = typename From::Word;
  using Out = typename To::Word;
  const std::size_t count = out.size() / sizeof(Out);
  for (std::size_t i = 0; i < count; ++i) {
    In from;
    std::memcpy(&from, in.data() + i * sizeof(In), sizeof(In));
    const Out to = convert_value<From, To>(from);
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
