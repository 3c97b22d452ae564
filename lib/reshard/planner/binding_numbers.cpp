#include "reshard/planner/binding_numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "reshard/planner/binding_owners.hpp"
#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {
namespace {

constexpr std::size_t kMostLookups = std::size_t{1} << 17;

using Names = std::unordered_set<std::string_view>;

/// Whether a part between dots is a number: "3", and "model.layers.3.mlp".
bool holds_number(std::string_view text) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('.'));
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos) return true;
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  return false;
}

bool counts_layers(const plan::OwnerRule& owner, const std::vector<std::string>& captures) {
  if (owner.axis == "pp" || owner.axis == "ep") return owner.axis == "pp";
  const auto number = captures.begin() + static_cast<std::ptrdiff_t>(*owner.capture - 1);
  return std::none_of(captures.begin(), number, holds_number);
}

/// Tensors of one rule whose names differ in one owner's number alone.
struct Group {
  const Identity* first = nullptr;
  std::set<Index> numbers;
};

class NumberCheck {
 public:
  NumberCheck(const plan::Rule& rule, const plan::OwnerRule& owner, const Names& known, std::size_t& lookups)
      : rule_(rule), owner_(owner), known_(known), lookups_(lookups) {}

  void add(const Identity& identity) {
    const bool may_be_absent = !rule_.source.members.empty() && rule_.source.members[identity.member].may_be_absent;
    if (may_be_absent || counts_layers(owner_, identity.captures)) return;
    std::vector<std::string> key = identity.captures;
    key[*owner_.capture - 1] = std::to_string(identity.member);
    Group& group = groups_[std::move(key)];
    if (group.first == nullptr) group.first = &identity;
    group.numbers.insert(captured_number(owner_, identity.captures));
  }

  void report(FoldedIssues& issues) const {
    for (const auto& [key, group] : groups_)
      if (static_cast<Index>(group.numbers.size()) < owner_.count) report(group, issues);
  }

 private:
  /// The first tensor of the group with another number; nothing where that is not for this rule.
  std::optional<std::string> name_with(Index number, const Identity& first) const {
    const std::string text = number_text(number, first.captures[*owner_.capture - 1]);
    try {
      const std::string prefix = replace_capture(rule_.match, first.prefix, first.captures, *owner_.capture, text);
      const auto captures = rule_.match.match(prefix);
      if (captures && (*captures)[*owner_.capture - 1] == text) return prefix + first.name.substr(first.prefix.size());
    } catch (const Error&) {
      // It cannot be told where the number stands.
    }
    return std::nullopt;
  }

  void report(const Group& group, FoldedIssues& issues) const {
    std::vector<Index> missing;
    std::vector<std::string> names;
    for (Index number = 0; number < owner_.count && lookups_ < kMostLookups; ++number) {
      if (group.numbers.contains(number)) continue;
      ++lookups_;
      std::optional<std::string> name = name_with(number, *group.first);
      if (!name || known_.contains(*name)) continue;
      missing.push_back(number);
      names.push_back(std::move(*name));
    }
    if (missing.empty()) return;
    const std::string message = fmt::format(
        "no rank stores it; on axis '{}' `owner` counts ${} from 0 to {}, and tensors like '{}' lack {}; add what is "
        "missing, correct the count, or give a pattern that does not match these numbers",
        owner_.axis, *owner_.capture, owner_.count - 1, group.first->name, number_list(missing));
    const std::string cause = fmt::format("{} {}", owner_.axis, number_list(missing));
    for (const std::string& name : names) issues.add(rule_.number, ErrorCode::kMissing, name, message, cause);
  }

  const plan::Rule& rule_;
  const plan::OwnerRule& owner_;
  const Names& known_;
  std::size_t& lookups_;
  std::map<std::vector<std::string>, Group> groups_;
};

/// The owners of both sides that take their number from the name, each capture and count once.
std::vector<const plan::OwnerRule*> counting_owners(const plan::Rule& rule) {
  std::vector<const plan::OwnerRule*> out;
  for (const plan::Placement* side : {&rule.source, &rule.target})
    for (const plan::OwnerRule& owner : side->owners) {
      const bool is_known = std::any_of(out.begin(), out.end(), [&](const plan::OwnerRule* other) {
        return other->axis == owner.axis && other->capture == owner.capture && other->count == owner.count;
      });
      if (owner.capture && !is_known) out.push_back(&owner);
    }
  return out;
}

}  // namespace

void check_numbers(const plan::ParallelPlan& plan, const std::vector<Identity>& identities,
                   const std::vector<std::string>& others, FoldedIssues& issues) {
  std::vector<std::vector<const Identity*>> of_rule(plan.rules.size());
  Names known(others.begin(), others.end());
  for (const Identity& identity : identities) {
    known.insert(identity.name);
    if (identity.rule != kNoRule) of_rule[identity.rule].push_back(&identity);
  }
  std::size_t lookups = 0;
  for (const plan::Rule& rule : plan.rules) {
    if (issues.has(rule.number)) continue;
    for (const plan::OwnerRule* owner : counting_owners(rule)) {
      NumberCheck check(rule, *owner, known, lookups);
      for (const Identity* identity : of_rule[rule.number]) check.add(*identity);
      check.report(issues);
    }
  }
}

const std::string& MissingLayers::text(std::size_t rule) {
  const auto [found, is_new] = texts_.try_emplace(rule);
  if (is_new)
    for (const plan::OwnerRule& owner : plan_->rules[rule].source.owners)
      if (owner.capture) found->second += text_of(rule, owner);
  return found->second;
}

std::string MissingLayers::text_of(std::size_t rule, const plan::OwnerRule& owner) const {
  std::set<Index> seen;
  for (const Identity& identity : *identities_)
    if (identity.rule == rule && counts_layers(owner, identity.captures))
      seen.insert(captured_number(owner, identity.captures));
  if (seen.empty()) return "";
  std::string missing;
  seen.insert(owner.count);
  Index next = 0;
  for (const Index number : seen) {
    if (number > next)
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ",
                             number - 1 == next ? fmt::format("{}", next) : fmt::format("{} to {}", next, number - 1));
    next = number + 1;
  }
  return missing.empty() ? "" : fmt::format("; no tensor has number {} (of 0 to {})", missing, owner.count - 1);
}

}  // namespace reshard::planner
