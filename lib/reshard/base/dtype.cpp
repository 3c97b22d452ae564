#include "reshard/base/dtype.hpp"

#include <array>

#include "reshard/base/error.hpp"

namespace reshard {
namespace {

struct DtypeEntry {
  Dtype dtype;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array kDtypes = {
    DtypeEntry{Dtype::kBool, "bool", 1},
    DtypeEntry{Dtype::kU8, "u8", 1},
    DtypeEntry{Dtype::kI8, "i8", 1},
    DtypeEntry{Dtype::kF8E4M3, "f8_e4m3", 1},
    DtypeEntry{Dtype::kF8E5M2, "f8_e5m2", 1},
    DtypeEntry{Dtype::kF8E8M0, "f8_e8m0", 1},
    DtypeEntry{Dtype::kF8E4M3Fnuz, "f8_e4m3fnuz", 1},
    DtypeEntry{Dtype::kF8E5M2Fnuz, "f8_e5m2fnuz", 1},
    DtypeEntry{Dtype::kU16, "u16", 2},
    DtypeEntry{Dtype::kI16, "i16", 2},
    DtypeEntry{Dtype::kF16, "f16", 2},
    DtypeEntry{Dtype::kBf16, "bf16", 2},
    DtypeEntry{Dtype::kU32, "u32", 4},
    DtypeEntry{Dtype::kI32, "i32", 4},
    DtypeEntry{Dtype::kF32, "f32", 4},
    DtypeEntry{Dtype::kU64, "u64", 8},
    DtypeEntry{Dtype::kI64, "i64", 8},
    DtypeEntry{Dtype::kF64, "f64", 8},
    DtypeEntry{Dtype::kC64, "c64", 8},
    DtypeEntry{Dtype::kC128, "c128", 16},
};

const DtypeEntry& entry(Dtype dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  if (i >= kDtypes.size() || kDtypes[i].dtype != dtype) internal_error("dtype table out of order");
  return kDtypes[i];
}

}  // namespace

std::int64_t size_bytes(Dtype dtype) {
  return entry(dtype).bytes;
}

std::string_view name(Dtype dtype) {
  return entry(dtype).name;
}

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const DtypeEntry& e : kDtypes)
    if (e.name == name) return e.dtype;
  return std::nullopt;
}

const std::vector<Dtype>& all_dtypes() {
  static const std::vector<Dtype> all = [] {
    std::vector<Dtype> out;
    for (const DtypeEntry& e : kDtypes) out.push_back(e.dtype);
    return out;
  }();
  return all;
}

bool is_convertible(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBf16;
}

}  // namespace reshard
