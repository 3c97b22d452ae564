#include "reshard/plan/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstddef>
#include <istream>
#include <optional>
#include <streambuf>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/base/json.hpp"
#include "reshard/plan/scalar.hpp"

namespace reshard::plan {
namespace {

constexpr std::string_view kQuoteHint =
    "in YAML quote patterns that start with '*' or contain '{', '}', '?' or ',', and everything with '${'";

/// yaml-cpp's marks count from 0.
Position position_of(const YAML::Mark& mark) {
  return {std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
}

class Place {
 public:
  explicit Place(std::string_view source) : source_(source) {}
  [[noreturn]] void refuse(Position at, std::string message, ErrorCode code = ErrorCode::kSyntax) const {
    throw Error(Issue{code, fmt::format("{}:{}:{}", source_, at.line, at.column), kNoTensor, std::move(message)});
  }

 private:
  std::string source_;
};

/// Text as a stream without a copy of it.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin =
        const_cast<char*>(text.data());  // streambuf's get area is not const; nothing is ever put back into it
    setg(begin, begin, begin + text.size());
  }
};

/// Turns events into a value tree. Depth is bounded by the limit, and nothing here recurses.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string_view text, const Place& place, YamlLimits limits) : text_(text), place_(place), limits_(limits) {}

  Value take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) place_.refuse(position_of(mark), "a second document begins here; a plan is one document");
  }
  void OnDocumentEnd() override { settle_null(nullptr); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    settle_null(&mark);
    refuse_properties(mark, "?", anchor);
    // yaml-cpp has one event for nothing, `~`, `null`, `Null` and `NULL`. The last two are strings to JSON, and so to
    // us; but where nothing is written the mark is that of the text that follows, so the next event tells whether the
    // word was this scalar.
    const std::string_view word = word_at(mark);
    const bool in_key = key_is_next();
    if (in_key) {
      add_key(std::string(word), position_of(mark));
      return;
    }
    const bool is_written = !word.empty() || !open_.empty();
    Value& value = add(Value(), is_written ? position_of(mark) : Position{});
    if (word == "Null" || word == "NULL") pending_ = PendingNull{&value, mark.pos, std::string(word)};
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    place_.refuse(position_of(mark), fmt::format("an alias ('*name') is not allowed; {}", kQuoteHint));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    settle_null(&mark);
    refuse_properties(mark, tag, anchor);
    const Position at = position_of(mark);
    const bool plain = tag == "?";
    if (plain && is_foreign_number(text))
      place_.refuse(
          at, fmt::format("'{}' is a number in some versions of YAML and none in JSON; write a number as JSON does "
                          "(4, -1, 0.5), or quote it to make it text",
                          text));
    if (!plain) refuse_open_quote(mark);
    if (key_is_next()) {
      if (plain && text == "<<") place_.refuse(at, "a merge key ('<<') is not allowed; write the keys out");
      add_key(text, at);
      return;
    }
    if (!plain) {
      add(Value(text), at);
      return;
    }
    std::optional<Value> value = plain_scalar(text);
    if (!value) place_.refuse(at, fmt::format("the number {} is out of range", text));
    add(std::move(*value), at);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    settle_null(&mark);
    refuse_properties(mark, tag, anchor);
    open(Value(Value::Array{}), position_of(mark));
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    settle_null(&mark);
    refuse_properties(mark, tag, anchor);
    open(Value(Value::Object{}), position_of(mark));
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    Value* value;
    bool has_key = false;  ///< of a map: a key waits for its value
    std::unordered_set<std::string> keys;
  };
  struct PendingNull {
    Value* value;
    int pos;
    std::string word;
  };

  void settle_null(const YAML::Mark* next) {
    if (!pending_) return;
    if (next == nullptr || next->pos != pending_->pos) {
      const Position at = pending_->value->position;
      *pending_->value = Value(pending_->word);
      pending_->value->position = at;
    }
    pending_.reset();
  }

  /// Explicit tags and anchors. Quoted scalars carry the tag "!", as does an explicit "!".
  void refuse_properties(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) place_.refuse(position_of(mark), "an anchor ('&name') is not allowed");
    const bool written = mark.pos >= 0 && static_cast<std::size_t>(mark.pos) < text_.size() &&
                         text_[static_cast<std::size_t>(mark.pos)] == '!';
    if ((tag != "?" && tag != "!" && !tag.empty()) || (tag == "!" && written))
      place_.refuse(position_of(mark), "a tag ('!name') is not allowed; quote text that begins with '!'");
  }

  /// yaml-cpp takes the end of the file for the end of a quoted scalar; to us the file has been cut short.
  void refuse_open_quote(const YAML::Mark& mark) const {
    std::size_t at = static_cast<std::size_t>(std::max(mark.pos, 0));
    if (at >= text_.size() || (text_[at] != '"' && text_[at] != '\'')) return;  // block text
    const char quote = text_[at];
    for (++at; at < text_.size(); ++at) {
      const bool escape = quote == '"' ? text_[at] == '\\' : text_.substr(at, 2) == "''";
      if (escape) {
        ++at;
      } else if (text_[at] == quote) {
        return;
      }
    }
    place_.refuse(position_of(mark), "a quoted text begins here and is never closed");
  }

  /// The null word at a mark, or nothing.
  std::string_view word_at(const YAML::Mark& mark) const {
    if (mark.pos < 0 || static_cast<std::size_t>(mark.pos) >= text_.size()) return "";
    const std::string_view rest = text_.substr(static_cast<std::size_t>(mark.pos));
    for (const std::string_view word : {"~", "null", "Null", "NULL"})
      if (rest.substr(0, word.size()) == word) return rest.substr(0, word.size());
    return "";
  }

  bool key_is_next() const { return !open_.empty() && open_.back().value->is_object() && !open_.back().has_key; }

  void add_key(std::string key, Position at) {
    Level& map = open_.back();
    if (!map.keys.insert(key).second)
      place_.refuse(at, fmt::format("the key {} is given twice", json_string(key)), ErrorCode::kDupKey);
    map.value->object().push_back({std::move(key), Value(), at});
    map.has_key = true;
  }

  Value& add(Value value, Position at) {
    value.position = at;
    if (open_.empty()) return root_ = std::move(value);
    Level& parent = open_.back();
    if (parent.value->is_array()) {
      parent.value->array().push_back(std::move(value));
      return parent.value->array().back();
    }
    parent.has_key = false;
    return parent.value->object().back().value = std::move(value);
  }

  void open(Value value, Position at) {
    if (key_is_next()) place_.refuse(at, fmt::format("a {} cannot be a key; keys are scalars", value.kind()));
    if (static_cast<int>(open_.size()) >= limits_.depth)
      place_.refuse(at, fmt::format("nested deeper than {} levels", limits_.depth));
    // The parent's items do not move while a child is open, so the address stays good.
    open_.push_back({&add(std::move(value), at), false, {}});
  }
  void close() { open_.pop_back(); }

  std::string_view text_;
  const Place& place_;
  YamlLimits limits_;
  int documents_ = 0;
  std::vector<Level> open_;
  std::optional<PendingNull> pending_;
  Value root_;
};

/// yaml-cpp queues all tokens of a flow collection before its first event, so a megabyte of '[' would cost a hundred
/// megabytes before the builder sees the first. No plan has a thousand more opening than closing brackets, wherever
/// they stand.
void refuse_bracket_tower(std::string_view text, const Place& place, YamlLimits limits) {
  constexpr int kTower = 1000;
  int depth = 0;
  Position at{1, 1};
  Position too_deep;
  for (const char c : text) {
    if (c == '[' || c == '{') {
      if (++depth == limits.depth + 1) too_deep = at;
      if (depth > kTower) place.refuse(too_deep, fmt::format("nested deeper than {} levels", limits.depth));
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
    ++at.column;
    if (c == '\n') at = {at.line + 1, 1};
  }
}

bool looks_unquoted(std::string_view line) {
  return line.find_first_of("*{}?&!%@`") != std::string_view::npos;
}

std::string_view line_of(std::string_view text, int number) {
  std::size_t begin = 0;
  for (int i = 0; i < number; ++i) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return "";
    begin = end + 1;
  }
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

Value parse_yaml(std::string_view text, std::string_view source, YamlLimits limits) {
  const Place place(source);
  refuse_bracket_tower(text, place, limits);
  ViewBuffer buffer(text);
  std::istream stream(&buffer);
  Builder builder(text, place, limits);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    std::string message = fmt::format("not YAML: {}", error.msg);
    if (looks_unquoted(line_of(text, error.mark.line))) message += fmt::format("; {}", kQuoteHint);
    place.refuse(position_of(error.mark), std::move(message));
  }
  return builder.take();
}

}  // namespace reshard::plan
