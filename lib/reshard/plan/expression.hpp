#pragma once
// What stands inside `${...}`: integers, names, `+ - * /`, parentheses and unary minus, over 64-bit integers. Every
// result is exact: a division with a remainder and an overflow are faults.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace reshard::plan {

using Variables = std::map<std::string, std::int64_t, std::less<>>;

/// True for `[A-Za-z_][A-Za-z0-9_]*`, the names that expressions can hold.
bool is_variable_name(std::string_view text);

/// Errors: kSchema, with the operation and its numbers, or the unknown name and the nearest known one.
std::int64_t evaluate(std::string_view text, const Variables& variables);

}  // namespace reshard::plan
