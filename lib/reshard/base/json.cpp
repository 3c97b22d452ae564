#include "reshard/base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <memory_resource>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reshard/base/error.hpp"

namespace reshard {
namespace {

/// Small pieces of memory that are freed together.
struct ManyKeys {
  std::pmr::monotonic_buffer_resource memory;
  std::pmr::unordered_set<std::string_view> keys{&memory};
};

/// The keys of an object, of which most have few. The texts outlive the set.
class KeySet {
 public:
  /// Whether the key is new.
  bool insert(std::string_view key) {
    if (many_) return many_->keys.insert(key).second;
    if (std::find(few_.begin(), few_.end(), key) != few_.end()) return false;
    few_.push_back(key);
    if (few_.size() > kFew) many_.emplace().keys.insert(few_.begin(), few_.end());
    return true;
  }
  void clear() {
    few_.clear();
    many_.reset();
  }

 private:
  static constexpr std::size_t kFew = 8;

  std::vector<std::string_view> few_;
  std::optional<ManyKeys> many_;  ///< beyond kFew, all of them
};

/// Adds to the SAX events what the parser does not check: depth, unique keys, positions.
class StrictSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  StrictSax(std::string_view text, std::string_view source, JsonLimits limits, JsonHandler& handler)
      : text_(text),
        source_(source),
        limits_(limits),
        handler_(handler),
        next_(text.data()),
        line_start_(text.data()) {}

  bool null() override {
    handler_.on_null(token());
    return true;
  }
  bool boolean(bool value) override {
    handler_.on_boolean(value, token());
    return true;
  }
  bool number_integer(number_integer_t value) override {
    handler_.on_integer(value, token());
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    const Position at = token();
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      handler_.on_float(static_cast<double>(value), std::to_string(value), at);
    } else {
      handler_.on_integer(static_cast<std::int64_t>(value), at);
    }
    return true;
  }
  bool number_float(number_float_t value, const string_t& text) override {
    handler_.on_float(value, text, token());
    return true;
  }
  bool string(string_t& value) override {
    handler_.on_string(value, token());
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    const Position at = token();
    deeper(at);
    if (std::ssize(keys_) <= depth_) keys_.resize(static_cast<std::size_t>(depth_) + 1);
    keys_[static_cast<std::size_t>(depth_)].clear();
    handler_.on_object_begin(at);
    return true;
  }
  bool key(string_t& value) override {
    const Position at = token();
    // A key without escapes stands in the text as it is.
    std::string_view lasting = token_.substr(1, token_.size() - 2);
    if (lasting != value) lasting = unescaped_.emplace_back(value);
    if (!keys_[static_cast<std::size_t>(depth_)].insert(lasting))
      throw Error(Issue{ErrorCode::kDupKey, place(at), kNoTensor,
                        fmt::format("the key {} is given twice", json_string(value))});
    handler_.on_key(value, at);
    return true;
  }
  bool end_object() override {
    --depth_;
    token();
    handler_.on_object_end();
    return true;
  }
  bool start_array(std::size_t) override {
    const Position at = token();
    deeper(at);
    handler_.on_array_begin(at);
    return true;
  }
  bool end_array() override {
    --depth_;
    token();
    handler_.on_array_end();
    return true;
  }
  bool parse_error(std::size_t bytes_read, const std::string&, const nlohmann::json::exception& error) override {
    // nlohmann's text is "[json.exception.parse_error.101] parse error at line 1, column 2: ...": the reason stands
    // behind the position, which we say in our own way.
    std::string reason = error.what();
    const std::size_t colon = reason.find(": ");
    if (colon != std::string::npos) reason.erase(0, colon + 2);
    const std::size_t last = std::min(bytes_read, text_.size());
    const Position at = position_of(text_.data() + (last > 0 ? last - 1 : 0));
    throw Error(Issue{ErrorCode::kSyntax, place(at), kNoTensor, "not JSON: " + reason});
  }

 private:
  /// Steps to the token that has just been read, which is sound: the first character behind the last token that is
  /// neither blank nor a separator. Returns where it begins.
  Position token() {
    const char* const end = text_.data() + text_.size();
    while (next_ < end &&
           (*next_ == ' ' || *next_ == '\t' || *next_ == '\n' || *next_ == '\r' || *next_ == ',' || *next_ == ':')) {
      if (*next_ == '\n') {
        ++line_;
        line_start_ = next_ + 1;
      }
      ++next_;
    }
    const Position at{line_, static_cast<int>(next_ - line_start_) + 1};
    token_ = std::string_view(next_, static_cast<std::size_t>(token_end(next_, end) - next_));
    next_ += token_.size();
    return at;
  }

  static const char* token_end(const char* at, const char* end) {
    if (at == end) return end;
    if (*at == '"') {
      for (++at; at < end && *at != '"'; ++at)
        if (*at == '\\') ++at;
      return std::min(at + 1, end);
    }
    constexpr std::string_view kPunctuation = "{}[]";
    if (kPunctuation.find(*at) != std::string_view::npos) return at + 1;
    constexpr std::string_view kBehind = " \t\n\r,:]}";  // a number, true, false, null
    while (at < end && kBehind.find(*at) == std::string_view::npos) ++at;
    return at;
  }

  Position position_of(const char* where) const {
    Position at{1, 1};
    for (const char* c = text_.data(); c < where; ++c) {
      if (*c == '\n') {
        ++at.line;
        at.column = 1;
      } else {
        ++at.column;
      }
    }
    return at;
  }

  void deeper(Position at) {
    if (++depth_ > limits_.depth)
      throw Error(
          Issue{ErrorCode::kSyntax, place(at), kNoTensor, fmt::format("nested deeper than {} levels", limits_.depth)});
  }

  std::string place(Position at) const { return fmt::format("{}:{}:{}", source_, at.line, at.column); }

  std::string_view text_;
  std::string_view source_;
  JsonLimits limits_;
  JsonHandler& handler_;
  const char* next_;
  std::string_view token_;
  const char* line_start_;
  int line_ = 1;
  int depth_ = 0;
  std::deque<KeySet> keys_;            ///< by depth, of the objects that are open
  std::deque<std::string> unescaped_;  ///< keys that the text spells otherwise
};

class TreeBuilder : public JsonHandler {
 public:
  void on_null(Position at) override { place(Value(nullptr), at); }
  void on_boolean(bool value, Position at) override { place(Value(value), at); }
  void on_integer(std::int64_t value, Position at) override { place(Value(value), at); }
  void on_float(double value, std::string_view text, Position at) override {
    place(Value(Value::Float{value, std::string(text)}), at);
  }
  void on_string(std::string_view value, Position at) override { place(Value(std::string(value)), at); }
  void on_key(std::string_view key, Position at) override {
    open_.back().object().push_back({std::string(key), Value(), at});
  }
  void on_object_begin(Position at) override { open(Value(Value::Object{}), at); }
  void on_object_end() override { close(); }
  void on_array_begin(Position at) override { open(Value(Value::Array{}), at); }
  void on_array_end() override { close(); }

  Value take() { return std::move(root_); }

 private:
  void open(Value value, Position at) {
    value.position = at;
    open_.push_back(std::move(value));
  }
  void close() {
    Value value = std::move(open_.back());
    open_.pop_back();
    const Position at = value.position;
    place(std::move(value), at);
  }
  void place(Value value, Position at) {
    value.position = at;
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().array().push_back(std::move(value));
    } else {
      open_.back().object().back().value = std::move(value);
    }
  }

  std::vector<Value> open_;
  Value root_;
};

}  // namespace

void parse_json(std::string_view text, std::string_view source, JsonLimits limits, JsonHandler& handler) {
  if (text.substr(0, 3) == "\xef\xbb\xbf")
    throw Error(Issue{ErrorCode::kSyntax, fmt::format("{}:1:1", source), kNoTensor,
                      "begins with a byte order mark; remove it"});
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
    throw Error(
        Issue{ErrorCode::kSyntax, std::string(source), kNoTensor, fmt::format("byte {} is NUL: not text", nul)});
  StrictSax sax(text, source, limits, handler);
  nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &sax);
}

Value parse_json(std::string_view text, std::string_view source, JsonLimits limits) {
  TreeBuilder builder;
  parse_json(text, source, limits, builder);
  return builder.take();
}

std::string json_string(std::string_view text) {
  // Most texts are names without anything to escape.
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::all_of(text.begin(), text.end(), is_plain)) {
    std::string out;
    out.reserve(text.size() + 2);
    out += '"';
    out += text;
    out += '"';
    return out;
  }
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace reshard
