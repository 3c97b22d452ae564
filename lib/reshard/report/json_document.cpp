#include "reshard/report/json_document.hpp"

#include <utility>

#include "reshard/base/json.hpp"

namespace reshard::report {

JsonDocument::JsonDocument(std::string_view schema) {
  member("schema", json_string(schema));
  member("version", "1");
}

void JsonDocument::begin_member(std::string_view key) {
  text_ += text_.empty() ? "{\n " : ",\n ";
  text_ += json_string(key);
  text_ += ": ";
}

void JsonDocument::member(std::string_view key, std::string_view json) {
  begin_member(key);
  text_ += json;
}

void JsonDocument::begin_list(std::string_view key) {
  begin_member(key);
  text_ += '[';
  list_is_empty_ = true;
}

void JsonDocument::element(std::string_view json) {
  text_ += list_is_empty_ ? "\n  " : ",\n  ";
  list_is_empty_ = false;
  text_ += json;
}

void JsonDocument::end_list() {
  text_ += list_is_empty_ ? "]" : "\n ]";
}

std::string JsonDocument::finish() {
  text_ += "\n}\n";
  return std::move(text_);
}

}  // namespace reshard::report
