#include "reshard/plan/expression.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <vector>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {
namespace {

constexpr int kMaxDepth = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// sum := product (('+' | '-') product)*; product := factor (('*' | '/') factor)*; factor := '-' factor | number | name
/// | '(' sum ')'
class Evaluation {
 public:
  Evaluation(std::string_view text, const Variables& variables) : text_(text), variables_(variables) {}

  std::int64_t run() {
    const std::int64_t value = sum();
    if (skip_blanks()) fault(fmt::format("'{}' is left over at character {}", text_.substr(at_), at_ + 1));
    return value;
  }

 private:
  [[noreturn]] void fault(std::string_view message) const {
    throw Error(Issue{ErrorCode::kSchema, "", kNoTensor, fmt::format("${{{}}}: {}", text_, message)});
  }

  std::int64_t sum() {
    if (++depth_ > kMaxDepth) fault(fmt::format("nested deeper than {} levels", kMaxDepth));
    std::int64_t value = product();
    while (const std::optional<char> op = take_one_of("+-"))
      value = *op == '+' ? checked_add(value, product()) : checked_sub(value, product());
    --depth_;
    return value;
  }

  std::int64_t product() {
    std::int64_t value = factor();
    while (const std::optional<char> op = take_one_of("*/"))
      value = *op == '*' ? checked_mul(value, factor()) : quotient(value, factor());
    return value;
  }

  std::int64_t factor() {
    // Signs are counted in a loop: a megabyte of them is no recursion.
    bool negative = false;
    while (take_one_of("-")) negative = !negative;
    const std::int64_t value = atom();
    return negative ? checked_sub(0, value) : value;
  }

  std::int64_t atom() {
    if (!skip_blanks()) fault("ends where a number, a name or '(' is expected");
    const char c = text_[at_];
    if (is_digit(c)) return number();
    if (is_name_start(c)) return variable();
    if (c != '(') fault(fmt::format("found '{}' at character {}, expected a number, a name or '('", c, at_ + 1));
    ++at_;
    const std::int64_t value = sum();
    if (!take_one_of(")")) fault("a '(' is never closed");
    return value;
  }

  std::int64_t number() {
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    at_ += static_cast<std::size_t>(end - begin);
    if (error != std::errc()) fault("a number does not fit 63 bits");
    return value;
  }

  std::int64_t variable() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    const auto found = variables_.find(name);
    if (found != variables_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [key, value] : variables_) known.push_back(key);
    fault(fmt::format("no variable '{}'{}; {}", name, suggestion(name, known),
                      known.empty() ? "the plan has no 'vars'" : fmt::format("vars: {}", join(known))));
  }

  std::int64_t quotient(std::int64_t a, std::int64_t b) const {
    if (b == 0) fault(fmt::format("{} / 0", a));
    if (b == -1) return checked_sub(0, a);
    if (a % b != 0) fault(fmt::format("{} / {} leaves a remainder of {}", a, b, a % b));
    return a / b;
  }

  /// False at the end of the text.
  bool skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size();
  }

  std::optional<char> take_one_of(std::string_view choices) {
    if (!skip_blanks() || choices.find(text_[at_]) == std::string_view::npos) return std::nullopt;
    return text_[at_++];
  }

  std::string_view text_;
  const Variables& variables_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

bool is_variable_name(std::string_view text) {
  if (text.empty() || !is_name_start(text.front())) return false;
  for (const char c : text)
    if (!is_name_start(c) && !is_digit(c)) return false;
  return true;
}

std::int64_t evaluate(std::string_view text, const Variables& variables) {
  try {
    return Evaluation(text, variables).run();
  } catch (const Error& error) {
    const Issue& issue = error.issues().front();
    if (issue.code != ErrorCode::kOverflow) throw;
    throw Error(Issue{ErrorCode::kSchema, "", kNoTensor, fmt::format("${{{}}}: {}", text, issue.message)});
  }
}

}  // namespace reshard::plan
