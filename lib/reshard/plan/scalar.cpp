#include "reshard/plan/scalar.hpp"

#include <re2/re2.h>

#include <charconv>
#include <string>

namespace reshard::plan {
namespace {

const RE2& json_integer() {
  static const RE2 pattern("-?(0|[1-9][0-9]*)");
  return pattern;
}

const RE2& json_number() {
  static const RE2 pattern(R"(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?)");
  return pattern;
}

/// The resolvers of YAML 1.1 (integers, floats, base 60) and of the core schema of YAML 1.2, joined.
const RE2& yaml_number() {
  static const RE2 pattern(
      "[-+]?("
      "0b[01_]+|0o[0-7]+|0x[0-9a-fA-F_]+"
      R"(|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?)"
      R"(|\.[0-9][0-9_]*([eE][-+]?[0-9]+)?)"
      R"(|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)"
      R"(|\.(inf|Inf|INF|nan|NaN|NAN))"
      ")");
  return pattern;
}

/// Most scalars are words; they need no grammar.
bool may_be_number(std::string_view text) {
  return !text.empty() && std::string_view("+-.0123456789").find(text.front()) != std::string_view::npos;
}

}  // namespace

std::optional<Value> plain_scalar(std::string_view text) {
  if (text.empty() || text == "~" || text == "null") return Value();
  if (text == "true") return Value(true);
  if (text == "false") return Value(false);
  if (!may_be_number(text)) return Value(std::string(text));
  const re2::StringPiece piece(text.data(), text.size());
  if (!RE2::FullMatch(piece, json_number())) return Value(std::string(text));
  if (RE2::FullMatch(piece, json_integer())) {
    std::int64_t integer = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), integer).ec == std::errc()) return Value(integer);
  }
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Too small to be told from zero is no fault in JSON; too large is.
  if (fault == std::errc::result_out_of_range && (number > 1 || number < -1 || number == 0)) {
    number = std::strtod(std::string(text).c_str(), nullptr);
    if (number > 1 || number < -1) return std::nullopt;
  }
  return Value(Value::Float{number, std::string(text)});
}

bool is_foreign_number(std::string_view text) {
  if (!may_be_number(text)) return false;
  const re2::StringPiece piece(text.data(), text.size());
  return RE2::FullMatch(piece, yaml_number()) && !RE2::FullMatch(piece, json_number());
}

}  // namespace reshard::plan
