#pragma once
// The names of element types in a safetensors header.

#include <optional>
#include <string_view>

#include "reshard/base/dtype.hpp"

namespace reshard::format::safetensors {

/// "BF16"; nothing where safetensors has no such type (C128).
std::optional<std::string_view> header_name(Dtype dtype);

/// The inverse of header_name(); names are compared exactly.
std::optional<Dtype> dtype_from_header(std::string_view name);

/// True for the types whose elements are smaller than a byte (F4, F6_E2M3, F6_E3M2): legal, and refused by name.
bool is_sub_byte(std::string_view name);

}  // namespace reshard::format::safetensors
