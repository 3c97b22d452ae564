#include "reshard/format/safetensors/dtypes.hpp"

#include <array>
#include <utility>

namespace reshard::format::safetensors {
namespace {

constexpr std::array kNames = {
    std::pair<Dtype, std::string_view>{Dtype::kBool, "BOOL"},
    std::pair<Dtype, std::string_view>{Dtype::kU8, "U8"},
    std::pair<Dtype, std::string_view>{Dtype::kI8, "I8"},
    std::pair<Dtype, std::string_view>{Dtype::kF8E4M3, "F8_E4M3"},
    std::pair<Dtype, std::string_view>{Dtype::kF8E5M2, "F8_E5M2"},
    std::pair<Dtype, std::string_view>{Dtype::kF8E8M0, "F8_E8M0"},
    std::pair<Dtype, std::string_view>{Dtype::kF8E4M3Fnuz, "F8_E4M3FNUZ"},
    std::pair<Dtype, std::string_view>{Dtype::kF8E5M2Fnuz, "F8_E5M2FNUZ"},
    std::pair<Dtype, std::string_view>{Dtype::kU16, "U16"},
    std::pair<Dtype, std::string_view>{Dtype::kI16, "I16"},
    std::pair<Dtype, std::string_view>{Dtype::kF16, "F16"},
    std::pair<Dtype, std::string_view>{Dtype::kBf16, "BF16"},
    std::pair<Dtype, std::string_view>{Dtype::kU32, "U32"},
    std::pair<Dtype, std::string_view>{Dtype::kI32, "I32"},
    std::pair<Dtype, std::string_view>{Dtype::kF32, "F32"},
    std::pair<Dtype, std::string_view>{Dtype::kU64, "U64"},
    std::pair<Dtype, std::string_view>{Dtype::kI64, "I64"},
    std::pair<Dtype, std::string_view>{Dtype::kF64, "F64"},
    std::pair<Dtype, std::string_view>{Dtype::kC64, "C64"},
};

}  // namespace

std::optional<std::string_view> header_name(Dtype dtype) {
  for (const auto& [known, name] : kNames)
    if (known == dtype) return name;
  return std::nullopt;
}

std::optional<Dtype> dtype_from_header(std::string_view name) {
  for (const auto& [known, known_name] : kNames)
    if (known_name == name) return known;
  return std::nullopt;
}

bool is_sub_byte(std::string_view name) {
  return name == "F4" || name == "F6_E2M3" || name == "F6_E3M2";
}

}  // namespace reshard::format::safetensors
