#include "reshard/planner/binding_text.hpp"

#include <fmt/format.h>

#include <map>

#include "reshard/planner/binding.hpp"

namespace reshard::planner {
namespace {

constexpr std::size_t kMaxListedForms = 12;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::string rule_name(std::size_t rule) {
  return fmt::format("tensors[{}]", rule);
}

std::string rule_place(const plan::ParallelPlan& plan, std::size_t rule) {
  if (rule == kNoRule) return plan.name;
  const int line = plan.rules[rule].position.line;
  if (line == 0 || plan.name.empty()) return rule_name(rule);
  return fmt::format("{}:{}: {}", plan.name, line, rule_name(rule));
}

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string number_list(std::span<const Index> numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!out.empty()) out += ", ";
    out += last == i ? fmt::format("{}", numbers[i]) : fmt::format("{} to {}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return out;
}

std::string rank_list(std::span<const Index> ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", number_list(ranks));
}

std::string name_form(std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!is_digit(name[i])) {
      out += name[i];
    } else if (i == 0 || !is_digit(name[i - 1])) {
      out += '*';
    }
  }
  return out;
}

std::string name_list(std::span<const std::string> names) {
  struct Form {
    std::string text;
    std::string first;
    std::size_t count = 0;
  };
  std::vector<Form> forms;
  std::map<std::string, std::size_t> index;
  for (const std::string& name : names) {
    std::string text = name_form(name);
    const auto [found, is_new] = index.try_emplace(text, forms.size());
    if (is_new) forms.push_back({std::move(text), name, 0});
    ++forms[found->second].count;
  }
  std::string out;
  for (std::size_t i = 0; i < forms.size() && i < kMaxListedForms; ++i) {
    if (i > 0) out += ", ";
    out += forms[i].count == 1 ? fmt::format("'{}'", forms[i].first)
                               : fmt::format("'{}' ({} tensors)", forms[i].text, forms[i].count);
  }
  if (forms.size() > kMaxListedForms) out += fmt::format(" and {} more kinds of names", forms.size() - kMaxListedForms);
  return out;
}

}  // namespace reshard::planner
