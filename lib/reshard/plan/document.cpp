#include "reshard/plan/document.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "reshard/base/error.hpp"
#include "reshard/base/json.hpp"
#include "reshard/plan/yaml.hpp"

namespace reshard::plan {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr int kMaxDepth = 64;

/// Length of the UTF-8 sequence at the beginning of `text`; 0 where it is none (overlong forms, surrogates and values
/// beyond U+10FFFF are none: Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(i < text.size() ? text[i] : 0); };
  const auto trails = [&](std::size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xbf; };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return trails(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool overlong = lead == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = lead == 0xed && byte(1) > 0x9f;
    return trails(1) && trails(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool overlong = lead == 0xf0 && byte(1) < 0x90;
    const bool beyond = lead == 0xf4 && byte(1) > 0x8f;
    return trails(1) && trails(2) && trails(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

class TextCheck {
 public:
  TextCheck(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  void run() {
    if (text_.size() > kMaxBytes)
      refuse(fmt::format("the plan has {} bytes, at most {} (16 MiB) are read", text_.size(), kMaxBytes));
    if (text_.substr(0, 3) == "\xef\xbb\xbf") refuse("begins with a byte order mark; remove it");
    bool blank = true;
    for (std::size_t i = 0; i < text_.size();) {
      const auto byte = static_cast<std::uint8_t>(text_[i]);
      const std::size_t length = sequence_length(text_.substr(i));
      if (length == 0) refuse(fmt::format("byte 0x{:02x} is not UTF-8", byte));
      if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f)
        refuse(fmt::format("the control character 0x{:02x} is not text", byte));
      blank = blank && (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r');
      column_ += static_cast<int>(length);
      if (byte == '\n') {
        ++line_;
        column_ = 1;
      }
      i += length;
    }
    line_ = column_ = 1;
    if (blank) refuse("the plan is empty");
  }

 private:
  [[noreturn]] void refuse(std::string message) const {
    throw Error(
        Issue{ErrorCode::kSyntax, fmt::format("{}:{}:{}", name_, line_, column_), kNoTensor, std::move(message)});
  }

  std::string_view text_;
  std::string_view name_;
  int line_ = 1;
  int column_ = 1;
};

}  // namespace

Notation notation_of(std::string_view file_name) {
  constexpr std::string_view kJsonEnding = ".json";
  const bool json =
      file_name.size() >= kJsonEnding.size() && file_name.substr(file_name.size() - kJsonEnding.size()) == kJsonEnding;
  return json ? Notation::kJson : Notation::kYaml;
}

Value read_document(std::string_view text, Notation notation, std::string_view name) {
  TextCheck(text, name).run();
  Value value = notation == Notation::kJson ? parse_json(text, name, JsonLimits{kMaxDepth})
                                            : parse_yaml(text, name, YamlLimits{kMaxDepth});
  if (value.is_null() && value.position == Position{})
    throw Error(Issue{ErrorCode::kSyntax, fmt::format("{}:1:1", name), kNoTensor, "the plan is empty"});
  return value;
}

}  // namespace reshard::plan
