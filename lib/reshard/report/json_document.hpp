#pragma once
// A report as JSON text, one member per line and one element of a long list per line, so that it can be read, searched
// and compared line by line. Values come as JSON texts, so a list of millions is never a tree in memory.

#include <string>
#include <string_view>

namespace reshard::report {

class JsonDocument {
 public:
  explicit JsonDocument(std::string_view schema);

  /// `json`: a JSON value on one line.
  void member(std::string_view key, std::string_view json);
  void begin_list(std::string_view key);
  void element(std::string_view json);
  void end_list();
  /// The whole text, ending in a line break. Nothing is added after it.
  std::string finish();

 private:
  void begin_member(std::string_view key);

  std::string text_;
  bool list_is_empty_ = true;
};

}  // namespace reshard::report
