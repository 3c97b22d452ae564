#pragma once
// What a plain YAML scalar means: JSON's grammar decides, and whatever another YAML version would read as a number is
// told apart from text.

#include <optional>
#include <string_view>

#include "reshard/base/value.hpp"

namespace reshard::plan {

/// null, true, false and numbers as in JSON, `~` and nothing as null, all else a string. Nothing for a number beyond
/// the range of a double.
std::optional<Value> plain_scalar(std::string_view text);

/// True for what YAML 1.1 or the core schema of YAML 1.2 reads as a number and JSON does not: 04, 0x4, 0o17, 0b1,
/// 1_000, +1, .5, 5., 1:30, .inf, .nan.
bool is_foreign_number(std::string_view text);

}  // namespace reshard::plan
