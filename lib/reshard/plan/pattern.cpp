#include "reshard/plan/pattern.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <memory>
#include <mutex>
#include <utility>

#include "reshard/base/error.hpp"
#include "reshard/base/utf8.hpp"

namespace reshard::plan {
namespace {

constexpr std::size_t kMaxPatternBytes = 16384;
constexpr std::int64_t kMaxCompiledBytes = std::int64_t{8}
                                           << 20;  // RE2's own default; a counted repetition can reach it
constexpr std::size_t kMaxCaptures = 64;
constexpr std::string_view kRegexPrefix = "re:";

[[noreturn]] void refuse(std::string message) {
  throw Error(Issue{ErrorCode::kPattern, "", kNoTensor, std::move(message)});
}

/// A wildcard pattern as a regular expression: "a.*.{b,c*}" is "a\.([^./]+)\.(b|c([^./]+))".
class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      const char c = pattern[i];
      if (c == '*' && i + 1 < pattern.size() && pattern[i + 1] == '*') {
        if (i + 2 < pattern.size() && pattern[i + 2] == '*') fault(i, "'***' is no wildcard; write '*' or '**'");
        regex_ += "(.*)";
        ++i;
      } else if (c == '*') {
        regex_ += "([^./]+)";
      } else if (c == '{') {
        if (brace_) fault(i, "braces do not nest; write the alternatives out, or use 're:'");
        brace_ = i;
        regex_ += '(';
      } else if (c == '}') {
        if (!brace_) fault(i, "'}' without '{'; a name with a brace is matched by 're:'");
        brace_.reset();
        regex_ += ')';
      } else if (c == ',' && brace_) {
        regex_ += '|';
      } else {
        regex_ += RE2::QuoteMeta(re2::StringPiece(&c, 1));
      }
    }
    if (brace_) fault(*brace_, "'{' is never closed");
  }

  std::string take() { return std::move(regex_); }

 private:
  [[noreturn]] void fault(std::size_t at, std::string_view message) const {
    refuse(fmt::format("pattern '{}', character {}: {}", pattern_, at + 1, message));
  }

  std::string_view pattern_;
  std::optional<std::size_t> brace_;
  std::string regex_;
};

RE2::Options options(RE2::Options::Encoding encoding) {
  RE2::Options out;
  out.set_log_errors(false);
  out.set_encoding(encoding);
  out.set_dot_nl(true);
  out.set_never_nl(false);
  out.set_max_mem(kMaxCompiledBytes);
  return out;
}

/// The number of `$12` at text[at] and the position behind it; nothing where no digit follows the dollar sign. A number
/// too large for any pattern is the largest there is.
std::optional<std::pair<std::size_t, std::size_t>> reference_at(std::string_view text, std::size_t at) {
  std::size_t number = 0;
  std::size_t end = at + 1;
  for (; end < text.size() && text[end] >= '0' && text[end] <= '9'; ++end)
    number = number > kMaxPatternBytes ? number : number * 10 + static_cast<std::size_t>(text[end] - '0');
  if (end == at + 1) return std::nullopt;
  return std::pair(number, end);
}

}  // namespace

/// The expression by characters for names that are UTF-8, by bytes for those that are not; by bytes for all names where
/// it is no UTF-8 itself.
class NamePattern::Compiled {
 public:
  explicit Compiled(const std::string& regex)
      : in_utf8_(is_utf8(regex)),
        expression_(regex, options(in_utf8_ ? RE2::Options::EncodingUTF8 : RE2::Options::EncodingLatin1)) {}

  const RE2& expression() const { return expression_; }

  /// Null where the name is to be matched by bytes and the expression is none of bytes (`\x{301}`).
  const RE2* expression_for(std::string_view name) const {
    if (!in_utf8_ || is_utf8(name)) return &expression_;
    std::call_once(compiled_by_bytes_, [this] {
      by_bytes_ = std::make_unique<RE2>(expression_.pattern(), options(RE2::Options::EncodingLatin1));
    });
    return by_bytes_->ok() ? by_bytes_.get() : nullptr;
  }

 private:
  bool in_utf8_;
  RE2 expression_;
  mutable std::once_flag compiled_by_bytes_;
  mutable std::unique_ptr<const RE2> by_bytes_;
};

NamePattern::NamePattern(std::string_view text) : text_(text) {
  if (text.empty()) refuse("the pattern is empty; '**' matches every name");
  if (text.size() > kMaxPatternBytes)
    refuse(fmt::format("the pattern has {} bytes, at most {} are read", text.size(), kMaxPatternBytes));
  const bool regex = text.substr(0, kRegexPrefix.size()) == kRegexPrefix;
  if (regex && text.size() == kRegexPrefix.size()) refuse("'re:' without an expression");
  auto compiled =
      std::make_shared<Compiled>(regex ? std::string(text.substr(kRegexPrefix.size())) : Translation(text).take());
  const RE2& expression = compiled->expression();
  if (!expression.ok())
    refuse(fmt::format("pattern '{}': {}; RE2 syntax is read (no look-around, no back-references)", text,
                       expression.error()));
  captures_ = static_cast<std::size_t>(expression.NumberOfCapturingGroups());
  if (captures_ > kMaxCaptures)
    refuse(fmt::format("pattern '{}' has {} captures, at most {} are kept", text, captures_, kMaxCaptures));
  compiled_ = std::move(compiled);
}

std::optional<std::vector<std::string>> NamePattern::match(std::string_view name) const {
  const RE2* expression = compiled_ ? compiled_->expression_for(name) : nullptr;
  if (!expression) return std::nullopt;
  std::vector<re2::StringPiece> found(captures_ + 1);
  const re2::StringPiece piece(name.data(), name.size());
  if (!expression->Match(piece, 0, name.size(), RE2::ANCHOR_BOTH, found.data(), static_cast<int>(found.size())))
    return std::nullopt;
  std::vector<std::string> out;
  for (std::size_t i = 1; i < found.size(); ++i)
    out.emplace_back(found[i].data() == nullptr ? "" : found[i].ToString());
  return out;
}

std::vector<std::size_t> capture_references(std::string_view text) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') continue;
    if (const auto reference = reference_at(text, i)) out.push_back(reference->first);
  }
  return out;
}

std::string expand(std::string_view text, const std::vector<std::string>& captures) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto reference = text[i] == '$' ? reference_at(text, i) : std::nullopt;
    if (!reference) {
      out += text[i++];
      continue;
    }
    const auto [number, end] = *reference;
    if (number < 1 || number > captures.size())
      refuse(fmt::format("${} in '{}' names no capture; the pattern has {}", number, text, captures.size()));
    out += captures[number - 1];
    i = end;
  }
  return out;
}

}  // namespace reshard::plan
