#pragma once
// Attributes of HDF5 objects: single texts, lists of texts, integers.
//
// Readers give nothing where the attribute is absent or of another kind. Writers: kIo that names `where`.

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reshard::format::hdf5 {

std::optional<std::string> read_text(hid_t object, const char* name);
std::optional<std::vector<std::string>> read_texts(hid_t object, const char* name);
/// One integer for a scalar.
std::optional<std::vector<std::int64_t>> read_integers(hid_t object, const char* name);
bool has_attribute(hid_t object, const char* name);

/// A scalar of fixed-length UTF-8.
void write_text(hid_t object, const char* name, std::string_view text, const std::string& where);
/// 1-D, of fixed-length UTF-8 as long as the longest.
void write_texts(hid_t object, const char* name, std::span<const std::string> texts, const std::string& where);
void write_integer(hid_t object, const char* name, std::int64_t value, const std::string& where);
/// 1-D, also of no elements.
void write_integers(hid_t object, const char* name, std::span<const std::int64_t> values, const std::string& where);

}  // namespace reshard::format::hdf5
