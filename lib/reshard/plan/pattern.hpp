#pragma once
// Name patterns of rules (plan format section 4): `*`, `**`, `{a,b}`, or `re:` and an RE2 expression, always on the
// whole name, in linear time. Every wildcard and brace is a capture, numbered from 1 by where it opens.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reshard::plan {

class NamePattern {
 public:
  /// Matches nothing.
  NamePattern() = default;
  /// Errors: kPattern, with the offending part and what is legal.
  explicit NamePattern(std::string_view text);

  const std::string& text() const { return text_; }
  std::size_t captures() const { return captures_; }
  /// $1, $2, ... where the whole name matches (capture i is at i - 1); one in an alternative not taken is empty. Any
  /// character of a name that is UTF-8, a line break too, may stand for `*`; any byte of one that is not.
  std::optional<std::vector<std::string>> match(std::string_view name) const;

 private:
  class Compiled;  // keeps RE2 out of this header
  std::string text_;
  std::size_t captures_ = 0;
  std::shared_ptr<const Compiled> compiled_;
};

/// The numbers i of every `$i` in a text, in order. A `$` that no digit follows is a dollar sign.
std::vector<std::size_t> capture_references(std::string_view text);

/// Replaces every `$i` by its capture. Errors: kPattern for an index without capture.
std::string expand(std::string_view text, const std::vector<std::string>& captures);

}  // namespace reshard::plan
