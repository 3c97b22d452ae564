#pragma once
// The one data model of every text input: JSON's values, with the place each was written at. JSON (base/json.hpp) and
// YAML (plan/yaml.hpp) both end here, so that the two forms of a plan cannot differ in meaning.
//
// Integers and floats are different kinds: 4 is an integer, 4.0 is not. Keys of an object are unique (the readers
// refuse repeated ones) and keep the order they were written in.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace reshard {

/// 1-based line and column of the first character of a value; 0 where there is no text behind it.
struct Position {
  int line = 0;
  int column = 0;

  friend bool operator==(const Position&, const Position&) = default;
};

class Value {
 public:
  struct Member;
  using Array = std::vector<Value>;
  using Object = std::vector<Member>;
  /// An integer outside 64 bits and every number with a fraction or an exponent.
  struct Float {
    double value = 0;
    std::string text;
  };

  // Defined where Member is complete, which variant's own constructors ask for.
  Value();
  Value(std::nullptr_t);
  Value(bool b);
  Value(std::int64_t i);
  Value(int i);
  Value(Float f);
  Value(std::string s);
  Value(const char* s);
  Value(Array a);
  Value(Object o);

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<Float>(data_); }
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_array() const { return std::holds_alternative<Array>(data_); }
  bool is_object() const { return std::holds_alternative<Object>(data_); }

  /// The caller has asked for the kind before.
  bool boolean() const { return std::get<bool>(data_); }
  std::int64_t integer() const { return std::get<std::int64_t>(data_); }
  const Float& floating() const { return std::get<Float>(data_); }
  const std::string& string() const { return std::get<std::string>(data_); }
  const Array& array() const { return std::get<Array>(data_); }
  Array& array() { return std::get<Array>(data_); }
  const Object& object() const { return std::get<Object>(data_); }
  Object& object() { return std::get<Object>(data_); }

  /// The member of that key, or null where there is none or this is no object.
  const Value* find(std::string_view key) const;

  /// "null", "boolean", "integer", "float", "string", "list", "map": for messages.
  std::string_view kind() const;

  Position position;

 private:
  std::variant<std::monostate, bool, std::int64_t, Float, std::string, Array, Object> data_;
};

struct Value::Member {
  std::string key;
  Value value;
  Position position;  ///< of the key
};

/// Canonical JSON: keys sorted bytewise, no blanks. The digest of a plan is taken of this text.
std::string canonical_json(const Value& value);

/// Equal in meaning: positions and key order play no part.
bool same(const Value& a, const Value& b);

}  // namespace reshard
