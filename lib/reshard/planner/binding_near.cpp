#include "reshard/planner/binding_near.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace reshard::planner {
namespace {

constexpr std::size_t kMaxAlternatives = 8;
constexpr std::size_t kMaxLength = 256;
constexpr std::size_t kMaxNames = 3;

enum class TokenKind { kLetter, kPart, kAnything };

struct Token {
  TokenKind kind = TokenKind::kLetter;
  char letter = 0;
};

/// "a{b,c}d" as "abd" and "acd"; braces do not nest. Beyond kMaxAlternatives the rest is left out: this is only a hint.
std::vector<std::string> alternatives(std::string_view pattern) {
  std::vector<std::string> out{""};
  while (!pattern.empty()) {
    const std::size_t open = pattern.find('{');
    const std::size_t close = open == std::string_view::npos ? open : pattern.find('}', open);
    for (std::string& text : out) text += pattern.substr(0, close == std::string_view::npos ? pattern.size() : open);
    if (close == std::string_view::npos) break;
    std::string_view choices = pattern.substr(open + 1, close - open - 1);
    std::vector<std::string> longer;
    for (bool more = true; more;) {
      const std::size_t comma = choices.find(',');
      for (const std::string& text : out)
        if (longer.size() < kMaxAlternatives) longer.push_back(text + std::string(choices.substr(0, comma)));
      more = comma != std::string_view::npos;
      if (more) choices.remove_prefix(comma + 1);
    }
    out = std::move(longer);
    pattern.remove_prefix(close + 1);
  }
  return out;
}

std::vector<Token> tokens(std::string_view pattern) {
  std::vector<Token> out;
  for (std::size_t i = 0; i < pattern.size() && i < kMaxLength; ++i) {
    if (pattern[i] != '*') {
      out.push_back({TokenKind::kLetter, pattern[i]});
    } else if (i + 1 < pattern.size() && pattern[i + 1] == '*') {
      out.push_back({TokenKind::kAnything, 0});
      ++i;
    } else {
      out.push_back({TokenKind::kPart, 0});
    }
  }
  return out;
}

/// Edit distance in which `**` takes any characters and `*` any but '.' and '/'. Two letters that have changed places
/// are one edit.
std::size_t edits(const std::vector<Token>& pattern, std::string_view name) {
  name = name.substr(0, kMaxLength);
  std::vector<std::size_t> before(name.size() + 1);
  for (std::size_t j = 0; j <= name.size(); ++j) before[j] = j;
  std::vector<std::size_t> row(name.size() + 1);
  std::vector<std::size_t> two_before(name.size() + 1);
  const auto is_letter = [&](std::size_t i, char letter) {
    return pattern[i].kind == TokenKind::kLetter && pattern[i].letter == letter;
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const Token& token = pattern[i];
    row[0] = before[0] + (token.kind == TokenKind::kAnything ? 0 : 1);
    for (std::size_t j = 1; j <= name.size(); ++j) {
      const char letter = name[j - 1];
      if (token.kind == TokenKind::kAnything) {
        row[j] = std::min(before[j], row[j - 1]);
      } else {
        const bool fits = token.kind == TokenKind::kPart ? letter != '.' && letter != '/' : letter == token.letter;
        const std::size_t taken = before[j - 1] + (fits ? 0 : 1);
        const std::size_t longer = row[j - 1] + (token.kind == TokenKind::kPart && fits ? 0 : 1);
        row[j] = std::min({taken, longer, before[j] + 1});
        if (i > 0 && j > 1 && is_letter(i, name[j - 2]) && is_letter(i - 1, letter))
          row[j] = std::min(row[j], two_before[j - 2] + 1);
      }
    }
    std::swap(two_before, before);
    std::swap(before, row);
  }
  return before[name.size()];
}

std::size_t letters_of(const std::vector<Token>& pattern) {
  return static_cast<std::size_t>(std::count_if(pattern.begin(), pattern.end(),
                                                [](const Token& token) { return token.kind == TokenKind::kLetter; }));
}

bool is_near(std::size_t distance, const std::vector<Token>& pattern) {
  return 3 * distance <= letters_of(pattern);
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view pattern, std::span<const std::string> names) {
  if (pattern.starts_with("re:")) return {};
  std::vector<std::pair<std::size_t, std::size_t>> near;  // edits, position
  for (const std::string& text : alternatives(pattern)) {
    const std::vector<Token> parts = tokens(text);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::size_t distance = edits(parts, names[i]);
      if (is_near(distance, parts)) near.emplace_back(distance, i);
    }
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> out;
  for (const auto& [distance, position] : near) {
    const std::string& name = names[position];
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
    if (out.size() == kMaxNames) break;
  }
  return out;
}

std::string with_wide_stars(std::string_view pattern) {
  if (pattern.starts_with("re:")) return std::string(pattern);
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '*') {
      out += pattern[i];
    } else if (i == 0 || pattern[i - 1] != '*') {
      out += "**";
    }
  }
  return out;
}

std::optional<std::size_t> nearest_pattern(std::string_view name, std::span<const std::string> patterns,
                                           const std::vector<bool>& matches_something) {
  std::optional<std::size_t> best;
  std::pair<std::size_t, bool> best_distance;
  const auto look = [&](std::size_t i, const std::vector<Token>& parts, std::size_t more) {
    const std::pair<std::size_t, bool> distance{edits(parts, name) + more, matches_something[i]};
    if (!is_near(distance.first, parts) || (best && distance >= best_distance)) return;
    best = i;
    best_distance = distance;
  };
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].starts_with("re:")) continue;
    for (const std::string& text : alternatives(patterns[i])) {
      std::vector<Token> parts = tokens(text);
      look(i, parts, 0);
      // A star too few is one edit, however many parts of the name it would have taken.
      for (Token& part : parts)
        if (part.kind == TokenKind::kPart) part.kind = TokenKind::kAnything;
      look(i, parts, 1);
    }
  }
  return best;
}

}  // namespace reshard::planner
