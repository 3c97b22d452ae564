#pragma once
// The strict JSON reader that plans, manifests, index files and safetensors headers share (nlohmann's SAX parser under
// checks of ours). Refused beside everything that RFC 8259 refuses: repeated keys at any level, a byte order mark,
// trailing NULs, nesting beyond the limit. 1.0 is no integer; a number beyond 64 bits is a float.
//
// Errors: kSyntax and kDupKey with `source:line:column`; a reader of checkpoint files turns them into kFormat.

#include <cstdint>
#include <string>
#include <string_view>

#include "reshard/base/value.hpp"

namespace reshard {

struct JsonLimits {
  int depth = 64;
};

/// The whole document as a value tree. `source` names the text in messages.
Value parse_json(std::string_view text, std::string_view source, JsonLimits limits = {});

/// Receives a document in order, for inputs too large for a tree (a header of a million tensors). Keys were found
/// unique within their object before on_key is called. Exceptions of the handler pass through.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual void on_null(Position at) = 0;
  virtual void on_boolean(bool value, Position at) = 0;
  virtual void on_integer(std::int64_t value, Position at) = 0;
  virtual void on_float(double value, std::string_view text, Position at) = 0;
  virtual void on_string(std::string_view value, Position at) = 0;
  virtual void on_key(std::string_view key, Position at) = 0;
  virtual void on_object_begin(Position at) = 0;
  virtual void on_object_end() = 0;
  virtual void on_array_begin(Position at) = 0;
  virtual void on_array_end() = 0;
};

void parse_json(std::string_view text, std::string_view source, JsonLimits limits, JsonHandler& handler);

/// A JSON string literal with its quotes; invalid UTF-8 is replaced.
std::string json_string(std::string_view text);

}  // namespace reshard
