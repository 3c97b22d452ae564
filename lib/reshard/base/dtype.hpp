#pragma once
// Element types that pass through bit for bit. Elements smaller than a byte are known by name only, to be refused.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reshard {

using Shape = std::vector<std::int64_t>;

enum class Dtype {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kU16,
  kI16,
  kF16,
  kBf16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64,
  kC64,
  kC128,
};

/// Bytes of one element.
std::int64_t size_bytes(Dtype dtype);

/// The name in plans, reports, manifests and HDF5 attributes: safetensors' name in lower case ("bf16", "f8_e4m3").
std::string_view name(Dtype dtype);

/// The inverse of name(); nothing for an unknown name.
std::optional<Dtype> dtype_from_name(std::string_view name);

/// Every dtype, in declaration order (ascending element size).
const std::vector<Dtype>& all_dtypes();

/// True for f64, f32, f16 and bf16, between which a plan may convert.
bool is_convertible(Dtype dtype);

}  // namespace reshard
