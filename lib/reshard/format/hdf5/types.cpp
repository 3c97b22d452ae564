#include "reshard/format/hdf5/types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "reshard/format/hdf5/library.hpp"

namespace reshard::format::hdf5 {
namespace {

/// Positions and widths in bits.
struct FloatFields {
  std::size_t bytes;
  std::size_t sign;
  std::size_t exponent;
  std::size_t exponent_size;
  std::size_t mantissa_size;  ///< the mantissa begins at bit 0
  std::size_t bias;

  friend bool operator==(const FloatFields&, const FloatFields&) = default;
};

struct FloatEntry {
  Dtype dtype;
  FloatFields fields;
};

constexpr std::array kFloats = {
    FloatEntry{Dtype::kF16, {2, 15, 10, 5, 10, 15}},  FloatEntry{Dtype::kBf16, {2, 15, 7, 8, 7, 127}},
    FloatEntry{Dtype::kF32, {4, 31, 23, 8, 23, 127}}, FloatEntry{Dtype::kF64, {8, 63, 52, 11, 52, 1023}},
    FloatEntry{Dtype::kF8E5M2, {1, 7, 2, 5, 2, 15}},  FloatEntry{Dtype::kF8E4M3, {1, 7, 3, 4, 3, 7}},
};

/// Names of other libraries (NumPy with ml_dtypes, PyTorch) beside our own.
constexpr std::array kForeignNames = {
    std::pair<std::string_view, Dtype>{"bool_", Dtype::kBool},
    std::pair<std::string_view, Dtype>{"uint8", Dtype::kU8},
    std::pair<std::string_view, Dtype>{"int8", Dtype::kI8},
    std::pair<std::string_view, Dtype>{"uint16", Dtype::kU16},
    std::pair<std::string_view, Dtype>{"int16", Dtype::kI16},
    std::pair<std::string_view, Dtype>{"uint32", Dtype::kU32},
    std::pair<std::string_view, Dtype>{"int32", Dtype::kI32},
    std::pair<std::string_view, Dtype>{"uint64", Dtype::kU64},
    std::pair<std::string_view, Dtype>{"int64", Dtype::kI64},
    std::pair<std::string_view, Dtype>{"float16", Dtype::kF16},
    std::pair<std::string_view, Dtype>{"bfloat16", Dtype::kBf16},
    std::pair<std::string_view, Dtype>{"float32", Dtype::kF32},
    std::pair<std::string_view, Dtype>{"float64", Dtype::kF64},
    std::pair<std::string_view, Dtype>{"complex64", Dtype::kC64},
    std::pair<std::string_view, Dtype>{"complex128", Dtype::kC128},
    std::pair<std::string_view, Dtype>{"float8_e4m3fn", Dtype::kF8E4M3},
    std::pair<std::string_view, Dtype>{"float8_e5m2", Dtype::kF8E5M2},
    std::pair<std::string_view, Dtype>{"float8_e8m0fnu", Dtype::kF8E8M0},
    std::pair<std::string_view, Dtype>{"float8_e4m3fnuz", Dtype::kF8E4M3Fnuz},
    std::pair<std::string_view, Dtype>{"float8_e5m2fnuz", Dtype::kF8E5M2Fnuz},
};

constexpr std::array<std::string_view, 8> kSubByteNames = {
    "f4", "f6_e2m3", "f6_e3m2", "float4_e2m1fn", "float4_e2m1fn_x2", "float6_e2m3fn", "float6_e3m2fn", "int4"};

[[noreturn]] void refuse(std::string message) {
  throw Error(Issue{ErrorCode::kDtype, "", kNoTensor, std::move(message)});
}

std::optional<Dtype> named_dtype(std::string lower) {
  for (const auto& [name, dtype] : kForeignNames)
    if (name == lower) return dtype;
  return dtype_from_name(lower);
}

/// The type that the attribute names, if it names one of the stored width.
std::optional<Dtype> attribute_dtype(const std::optional<std::string>& attribute, std::size_t bytes) {
  if (!attribute) return std::nullopt;
  std::string lower = *attribute;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (std::ranges::find(kSubByteNames, lower) != kSubByteNames.end())
    refuse(fmt::format("has dtype {}: elements smaller than a byte are not supported", lower));
  const std::optional<Dtype> dtype = named_dtype(lower);
  if (!dtype || size_bytes(*dtype) != static_cast<std::int64_t>(bytes)) return std::nullopt;
  return dtype;
}

bool is_big_endian(hid_t type, std::string_view what) {
  const H5T_order_t order = H5Tget_order(type);
  if (order != H5T_ORDER_LE && order != H5T_ORDER_BE && order != H5T_ORDER_NONE)
    refuse(fmt::format("is stored as {} of a byte order that is neither little nor big endian", what));
  return order == H5T_ORDER_BE;
}

std::optional<Dtype> integer_dtype(hid_t type) {
  const std::size_t bytes = H5Tget_size(type);
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  if (H5Tget_precision(type) != 8 * bytes || H5Tget_offset(type) != 0) return std::nullopt;
  switch (bytes) {
    case 1:
      return is_signed ? Dtype::kI8 : Dtype::kU8;
    case 2:
      return is_signed ? Dtype::kI16 : Dtype::kU16;
    case 4:
      return is_signed ? Dtype::kI32 : Dtype::kU32;
    case 8:
      return is_signed ? Dtype::kI64 : Dtype::kU64;
    default:
      return std::nullopt;
  }
}

std::optional<Dtype> float_dtype(hid_t type) {
  FloatFields found{};
  std::size_t mantissa = 0;
  found.bytes = H5Tget_size(type);
  if (H5Tget_fields(type, &found.sign, &found.exponent, &found.exponent_size, &mantissa, &found.mantissa_size) < 0 ||
      mantissa != 0 || H5Tget_norm(type) != H5T_NORM_IMPLIED || H5Tget_offset(type) != 0)
    return std::nullopt;
  found.bias = H5Tget_ebias(type);
  const auto entry = std::ranges::find(kFloats, found, &FloatEntry::fields);
  return entry == kFloats.end() ? std::nullopt : std::optional(entry->dtype);
}

std::string member_name(hid_t type, unsigned member) {
  char* const text = H5Tget_member_name(type, member);
  if (text == nullptr) return {};
  std::string out(text);
  H5free_memory(text);
  return out;
}

bool is_bool_enum(hid_t type) {
  if (H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) return false;
  for (unsigned member = 0; member < 2; ++member) {
    signed char value = -1;
    if (H5Tget_member_value(type, member, &value) < 0) return false;
    if (member_name(type, member) != (value == 0 ? "FALSE" : "TRUE") || (value != 0 && value != 1)) return false;
  }
  return true;
}

/// A compound of two equal floats, r then i.
std::optional<ElementType> complex_type(hid_t type) {
  if (H5Tget_nmembers(type) != 2 || member_name(type, 0) != "r" || member_name(type, 1) != "i") return std::nullopt;
  const Handle real(H5Tget_member_type(type, 0), H5Tclose);
  const Handle imaginary(H5Tget_member_type(type, 1), H5Tclose);
  if (!real || !imaginary || H5Tget_class(real.get()) != H5T_FLOAT || H5Tequal(real.get(), imaginary.get()) <= 0)
    return std::nullopt;
  const std::optional<Dtype> part = float_dtype(real.get());
  const std::size_t bytes = H5Tget_size(real.get());
  if (H5Tget_member_offset(type, 0) != 0 || H5Tget_member_offset(type, 1) != bytes || H5Tget_size(type) != 2 * bytes)
    return std::nullopt;
  const bool big_endian = is_big_endian(real.get(), "complex numbers");
  if (part == Dtype::kF32) return ElementType{Dtype::kC64, big_endian};
  if (part == Dtype::kF64) return ElementType{Dtype::kC128, big_endian};
  return std::nullopt;
}

Handle make_float(const FloatFields& fields) {
  Handle type(H5Tcopy(fields.bytes == 8 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE), H5Tclose);
  // Fields first: they must lie within the size at every step.
  if (!type ||
      H5Tset_fields(type.get(), fields.sign, fields.exponent, fields.exponent_size, 0, fields.mantissa_size) < 0 ||
      H5Tset_size(type.get(), fields.bytes) < 0 || H5Tset_ebias(type.get(), fields.bias) < 0)
    internal_error("HDF5 float type: " + innermost_error());
  return type;
}

Handle make_complex(hid_t part) {
  const std::size_t bytes = H5Tget_size(part);
  Handle type(H5Tcreate(H5T_COMPOUND, 2 * bytes), H5Tclose);
  if (!type || H5Tinsert(type.get(), "r", 0, part) < 0 || H5Tinsert(type.get(), "i", bytes, part) < 0)
    internal_error("HDF5 complex type: " + innermost_error());
  return type;
}

Handle make_bool() {
  Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
  const signed char no = 0;
  const signed char yes = 1;
  if (!type || H5Tenum_insert(type.get(), "FALSE", &no) < 0 || H5Tenum_insert(type.get(), "TRUE", &yes) < 0)
    internal_error("HDF5 bool type: " + innermost_error());
  return type;
}

}  // namespace

Handle make_type(Dtype dtype) {
  const auto standard = [](hid_t type) { return Handle(H5Tcopy(type), H5Tclose); };
  switch (dtype) {
    case Dtype::kBool:
      return make_bool();
    case Dtype::kU8:
    case Dtype::kF8E4M3:
    case Dtype::kF8E8M0:
    case Dtype::kF8E4M3Fnuz:
    case Dtype::kF8E5M2Fnuz:
      return standard(H5T_STD_U8LE);
    case Dtype::kI8:
      return standard(H5T_STD_I8LE);
    case Dtype::kU16:
      return standard(H5T_STD_U16LE);
    case Dtype::kI16:
      return standard(H5T_STD_I16LE);
    case Dtype::kU32:
      return standard(H5T_STD_U32LE);
    case Dtype::kI32:
      return standard(H5T_STD_I32LE);
    case Dtype::kU64:
      return standard(H5T_STD_U64LE);
    case Dtype::kI64:
      return standard(H5T_STD_I64LE);
    case Dtype::kC64:
      return make_complex(H5T_IEEE_F32LE);
    case Dtype::kC128:
      return make_complex(H5T_IEEE_F64LE);
    case Dtype::kF16:
    case Dtype::kBf16:
    case Dtype::kF32:
    case Dtype::kF64:
    case Dtype::kF8E5M2:
      return make_float(std::ranges::find(kFloats, dtype, &FloatEntry::dtype)->fields);
  }
  internal_error("unknown dtype");
}

ElementType element_type(hid_t type, const std::optional<std::string>& dtype_attribute) {
  const std::size_t bytes = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: {
      const std::optional<Dtype> stored = integer_dtype(type);
      if (!stored) refuse(fmt::format("is stored as integers of {} of {} bits", H5Tget_precision(type), 8 * bytes));
      return {attribute_dtype(dtype_attribute, bytes).value_or(*stored), is_big_endian(type, "integers")};
    }
    case H5T_FLOAT: {
      const std::optional<Dtype> stored = float_dtype(type);
      if (!stored)
        refuse(
            fmt::format("is stored as {}-byte floats that are none of f16, bf16, f32, f64, f8_e5m2, f8_e4m3", bytes));
      return {*stored, is_big_endian(type, "floats")};
    }
    case H5T_OPAQUE: {
      const std::optional<Dtype> named = attribute_dtype(dtype_attribute, bytes);
      if (!named)
        refuse(
            fmt::format("is stored as opaque elements of {} bytes; its dtype must be told by an attribute dtype, as "
                        "\"bfloat16\" (found: {})",
                        bytes, dtype_attribute ? '"' + *dtype_attribute + '"' : "none"));
      return {*named, false};
    }
    case H5T_ENUM:
      if (is_bool_enum(type)) return {Dtype::kBool, false};
      refuse("is stored as an enumeration other than FALSE 0, TRUE 1");
    case H5T_COMPOUND:
      if (const std::optional<ElementType> complex = complex_type(type)) return *complex;
      refuse(
          fmt::format("is stored as a compound of {} members other than a complex number r, i", H5Tget_nmembers(type)));
    case H5T_STRING:
      refuse("holds text, not numbers");
    case H5T_REFERENCE:
      refuse("holds references, not numbers");
    case H5T_VLEN:
      refuse("holds lists of varying length, not numbers");
    case H5T_ARRAY:
      refuse("is stored as elements that are arrays");
    case H5T_BITFIELD:
      refuse("is stored as bit fields");
    case H5T_TIME:
      refuse("holds times, not numbers");
    default:
      refuse("has a type that HDF5 does not define");
  }
}

}  // namespace reshard::format::hdf5
