#include "reshard/base/value.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "reshard/base/json.hpp"

namespace reshard {
namespace {

std::vector<const Value::Member*> sorted_members(const Value& value) {
  std::vector<const Value::Member*> out;
  for (const Value::Member& member : value.object()) out.push_back(&member);
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) { return a->key < b->key; });
  return out;
}

void write(std::string& out, const Value& value) {
  if (value.is_null()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.boolean() ? "true" : "false";
  } else if (value.is_integer()) {
    out += std::to_string(value.integer());
  } else if (value.is_float()) {
    out += value.floating().text;
  } else if (value.is_string()) {
    out += json_string(value.string());
  } else if (value.is_array()) {
    out += '[';
    for (std::size_t i = 0; i < value.array().size(); ++i) {
      if (i > 0) out += ',';
      write(out, value.array()[i]);
    }
    out += ']';
  } else {
    out += '{';
    bool first = true;
    for (const Value::Member* member : sorted_members(value)) {
      if (!first) out += ',';
      first = false;
      out += json_string(member->key);
      out += ':';
      write(out, member->value);
    }
    out += '}';
  }
}

}  // namespace

Value::Value() = default;
Value::Value(std::nullptr_t) {}
Value::Value(bool b) : data_(b) {}
Value::Value(std::int64_t i) : data_(i) {}
Value::Value(int i) : data_(static_cast<std::int64_t>(i)) {}
Value::Value(Float f) : data_(std::move(f)) {}
Value::Value(std::string s) : data_(std::move(s)) {}
Value::Value(const char* s) : data_(std::string(s)) {}
Value::Value(Array a) : data_(std::move(a)) {}
Value::Value(Object o) : data_(std::move(o)) {}

const Value* Value::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const Member& member : object())
    if (member.key == key) return &member.value;
  return nullptr;
}

std::string_view Value::kind() const {
  if (is_null()) return "null";
  if (is_bool()) return "boolean";
  if (is_integer()) return "integer";
  if (is_float()) return "float";
  if (is_string()) return "string";
  return is_array() ? "list" : "map";
}

std::string canonical_json(const Value& value) {
  std::string out;
  write(out, value);
  return out;
}

bool same(const Value& a, const Value& b) {
  return canonical_json(a) == canonical_json(b);
}

}  // namespace reshard
