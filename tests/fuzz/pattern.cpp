// Name patterns: the first line of the input is the pattern, the rest is a name.

#include <algorithm>
#include <optional>
#include <vector>

#include "fuzz/target.hpp"
#include "reshard/plan/pattern.hpp"

using namespace reshard;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view text = input.substr(0, line);
  const std::string_view name = input.substr(std::min(line + 1, input.size()));

  plan::NamePattern pattern;
  if (fuzz::accepts(Exit::kPlan, [&] { pattern = plan::NamePattern(text); })) {
    fuzz::require(pattern.text() == text, "a pattern keeps its text");
    const std::optional<std::vector<std::string>> found = pattern.match(name);
    if (found) {
      fuzz::require(found->size() == pattern.captures(), "a match has all captures");
      for (const std::string& capture : *found)
        fuzz::require(name.find(capture) != std::string_view::npos, "a capture is a part of the name");
      fuzz::accepts(Exit::kPlan, [&] { plan::expand(name, *found); });
    }
    const bool is_literal = text.find_first_of("*{},\\") == std::string_view::npos && !text.starts_with("re:");
    if (is_literal) {
      fuzz::require(pattern.match(text).has_value(), "a literal pattern matches itself");
      fuzz::require(found.has_value() == (name == text), "a literal pattern matches nothing else");
    }
    if (text == "**") fuzz::require(found.has_value(), "** matches every name");
  }
  for (const std::size_t reference : plan::capture_references(name))
    fuzz::require(name.find('$') != std::string_view::npos && reference + 1 != 0, "a reference stands in the text");
  return 0;
}
