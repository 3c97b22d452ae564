#include "reshard/format/hdf5/attributes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reshard/format/hdf5/library.hpp"

namespace reshard::format::hdf5 {
namespace {

/// Attributes that mean something to us are short; a longer one is none of ours.
constexpr hssize_t kMaxElements = 4096;
constexpr std::size_t kMaxTextBytes = 64 * 1024;

struct Attribute {
  Handle id;
  Handle type;
  std::size_t elements = 0;
};

/// An attribute of this class with a simple or scalar space.
std::optional<Attribute> open(hid_t object, const char* name, H5T_class_t type_class) {
  if (!has_attribute(object, name)) return std::nullopt;
  Attribute out;
  out.id = Handle(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
  if (!out.id) return std::nullopt;
  out.type = Handle(H5Aget_type(out.id.get()), H5Tclose);
  const Handle space(H5Aget_space(out.id.get()), H5Sclose);
  if (!out.type || !space || H5Tget_class(out.type.get()) != type_class) return std::nullopt;
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) return std::nullopt;
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (count < 0 || count > kMaxElements) return std::nullopt;
  out.elements = static_cast<std::size_t>(count);
  return out;
}

std::optional<std::vector<std::string>> read_fixed(const Attribute& attribute) {
  const std::size_t bytes = H5Tget_size(attribute.type.get());
  if (bytes == 0 || bytes > kMaxTextBytes) return std::nullopt;
  std::vector<char> buffer(bytes * attribute.elements);
  if (attribute.elements > 0 && H5Aread(attribute.id.get(), attribute.type.get(), buffer.data()) < 0)
    return std::nullopt;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < attribute.elements; ++i) {
    const std::string_view text(buffer.data() + i * bytes, bytes);
    out.emplace_back(text.substr(0, text.find('\0')));
  }
  return out;
}

std::optional<std::vector<std::string>> read_variable(const Attribute& attribute) {
  std::vector<char*> texts(attribute.elements, nullptr);
  if (attribute.elements > 0 && H5Aread(attribute.id.get(), attribute.type.get(), texts.data()) < 0)
    return std::nullopt;
  std::vector<std::string> out;
  for (char* const text : texts) {
    out.emplace_back(text == nullptr ? "" : text);
    H5free_memory(text);
  }
  return out;
}

Handle text_type(std::size_t bytes) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  if (!type || H5Tset_size(type.get(), std::max<std::size_t>(bytes, 1)) < 0 ||
      H5Tset_strpad(type.get(), H5T_STR_NULLPAD) < 0 || H5Tset_cset(type.get(), H5T_CSET_UTF8) < 0)
    internal_error("HDF5 text type: " + innermost_error());
  return type;
}

void write(hid_t object, const char* name, hid_t type, const Handle& space, const void* data,
           const std::string& where) {
  const Handle attribute(H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute || (data != nullptr && H5Awrite(attribute.get(), type, data) < 0))
    library_error(ErrorCode::kIo, where, kNoTensor, fmt::format("write the attribute {}", name));
}

Handle line(std::size_t elements) {
  const hsize_t extent = elements;
  return {H5Screate_simple(1, &extent, nullptr), H5Sclose};
}

}  // namespace

bool has_attribute(hid_t object, const char* name) {
  return H5Aexists(object, name) > 0;
}

std::optional<std::vector<std::string>> read_texts(hid_t object, const char* name) {
  const std::optional<Attribute> attribute = open(object, name, H5T_STRING);
  if (!attribute) return std::nullopt;
  return H5Tis_variable_str(attribute->type.get()) > 0 ? read_variable(*attribute) : read_fixed(*attribute);
}

std::optional<std::string> read_text(hid_t object, const char* name) {
  std::optional<std::vector<std::string>> texts = read_texts(object, name);
  if (!texts || texts->size() != 1) return std::nullopt;
  return std::move(texts->front());
}

std::optional<std::vector<std::int64_t>> read_integers(hid_t object, const char* name) {
  const std::optional<Attribute> attribute = open(object, name, H5T_INTEGER);
  if (!attribute) return std::nullopt;
  std::vector<std::int64_t> out(attribute->elements);
  if (!out.empty() && H5Aread(attribute->id.get(), H5T_NATIVE_INT64, out.data()) < 0) return std::nullopt;
  return out;
}

void write_text(hid_t object, const char* name, std::string_view text, const std::string& where) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  std::string padded(text);
  padded.resize(std::max<std::size_t>(text.size(), 1));
  write(object, name, text_type(padded.size()).get(), space, padded.data(), where);
}

void write_texts(hid_t object, const char* name, std::span<const std::string> texts, const std::string& where) {
  std::size_t bytes = 1;
  for (const std::string& text : texts) bytes = std::max(bytes, text.size());
  std::string padded;
  for (const std::string& text : texts) padded += text + std::string(bytes - text.size(), '\0');
  write(object, name, text_type(bytes).get(), line(texts.size()), texts.empty() ? nullptr : padded.data(), where);
}

void write_integer(hid_t object, const char* name, std::int64_t value, const std::string& where) {
  write(object, name, H5T_STD_I64LE, Handle(H5Screate(H5S_SCALAR), H5Sclose), &value, where);
}

void write_integers(hid_t object, const char* name, std::span<const std::int64_t> values, const std::string& where) {
  write(object, name, H5T_STD_I64LE, line(values.size()), values.empty() ? nullptr : values.data(), where);
}

}  // namespace reshard::format::hdf5
