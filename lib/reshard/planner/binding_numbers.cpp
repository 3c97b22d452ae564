#include "reshard/planner/binding_numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "reshard/planner/binding_owners.hpp"
#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {
namespace {

constexpr std::size_t kMostLookups = std::size_t{1} << 17;
constexpr std::size_t kNames = 8;

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

/// The first of them: an expert lost in some layers is found by their names.
std::string listed(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kNames);
  std::string out;
  for (std::size_t i = 0; i < shown; ++i) out += fmt::format("{}'{}'", i == 0 ? "" : ", ", escaped(names[i]));
  return out + (shown < names.size() ? ", ..." : "");
}

/// What of the tensors of one rule and owner is asked for by name.
class Lookup {
 public:
  Lookup(const plan::Rule& rule, const plan::OwnerRule& owner, const Names& known, std::size_t& lookups)
      : rule_(&rule), owner_(&owner), known_(&known), lookups_(&lookups) {}

  /// The tensor like `first` with another number; nothing where that is not for this rule, or it is there.
  std::optional<std::string> absent(Index number, const Identity& first) const {
    if (*lookups_ >= kMostLookups) return std::nullopt;
    ++*lookups_;
    const std::string text = number_text(number, first.captures[*owner_->capture - 1]);
    try {
      const std::string prefix = replace_capture(rule_->match, first.prefix(), first.captures, *owner_->capture, text);
      const auto captures = rule_->match.match(prefix);
      if (!captures || (*captures)[*owner_->capture - 1] != text) return std::nullopt;
      std::string name = prefix + first.name.substr(first.name.size() - first.suffix_bytes);
      if (known_->contains(name)) return std::nullopt;
      return name;
    } catch (const Error&) {
      return std::nullopt;  // it cannot be told where the number stands
    }
  }
  bool is_exhausted() const { return *lookups_ >= kMostLookups; }

  /// Where a source numbers locally, its files say something else.
  std::string stored_as(Index number) const {
    const plan::OwnerRule* const local = local_owner();
    if (local == nullptr) return "";
    const auto place = ownership(*local).locate(number);
    return fmt::format(" (in files of coordinate {} on '{}' it is number {})", place.coordinate, local->axis,
                       place.local);
  }
  /// By which a source numbers locally what this owner counts; null where it does not.
  const plan::OwnerRule* local_owner() const {
    for (const plan::OwnerRule& owner : rule_->source.owners)
      if (owner.axis == owner_->axis && owner.capture == owner_->capture && owner.count == owner_->count &&
          owner.local_numbering)
        return &owner;
    return nullptr;
  }

  const plan::Rule& rule() const { return *rule_; }
  const plan::OwnerRule& owner() const { return *owner_; }

 private:
  const plan::Rule* rule_;
  const plan::OwnerRule* owner_;
  const Names* known_;
  std::size_t* lookups_;
};

/// Tensors of one rule whose names differ in one owner's number alone.
struct Group {
  const Identity* first = nullptr;
  std::set<Index> numbers;
};

/// Groups of one rule and owner.
class GroupCheck {
 public:
  explicit GroupCheck(Lookup lookup) : lookup_(lookup) {}

  void add(const Identity& identity) {
    const plan::Rule& rule = lookup_.rule();
    const bool may_be_absent = !rule.source.members.empty() && rule.source.members[identity.member].may_be_absent;
    if (may_be_absent || counts_layers(lookup_.owner(), identity.captures)) return;
    Group& group = groups_[key_of(identity)];
    if (group.first == nullptr) group.first = &identity;
    const Index number = captured_number(lookup_.owner(), identity.captures);
    group.numbers.insert(number);
    numbers_.insert(number);
  }

  void report(FoldedIssues& issues) const {
    std::map<std::vector<Index>, std::vector<std::string>> names_by_numbers;
    std::map<std::vector<Index>, const Group*> first_by_numbers;
    for (const auto& entry : groups_) {
      const Group& group = entry.second;
      std::vector<Index> missing;
      std::vector<std::string> names;
      for_each_wanted([&](Index number) {
        if (group.numbers.contains(number)) return;
        if (std::optional<std::string> name = lookup_.absent(number, *group.first)) {
          missing.push_back(number);
          names.push_back(std::move(*name));
        }
      });
      if (missing.empty()) continue;
      first_by_numbers.try_emplace(missing, &group);
      std::vector<std::string>& all = names_by_numbers[missing];
      all.insert(all.end(), names.begin(), names.end());
    }
    for (auto& [missing, names] : names_by_numbers) report(missing, names, *first_by_numbers[missing]->first, issues);
  }

 private:
  /// The name without the number. A glob captures all that varies, `re:` what its author has put into parentheses.
  std::vector<std::string> key_of(const Identity& identity) const {
    const std::size_t capture = *lookup_.owner().capture;
    const std::string member = std::to_string(identity.member);
    const plan::NamePattern& pattern = lookup_.rule().match;
    if (pattern.text().starts_with("re:")) {
      try {
        return {member, replace_capture(pattern, identity.prefix(), identity.captures, capture,
                                        number_text(0, identity.captures[capture - 1]))};
      } catch (const Error&) {
        // It cannot be told where the number stands: by captures then.
      }
    }
    std::vector<std::string> key = identity.captures;
    key[capture - 1] = member;
    return key;
  }

  template <typename Work>
  void for_each_wanted(const Work& work) const {
    if (lookup_.owner().axis == "ep") {
      for (Index number = 0; number < lookup_.owner().count && !lookup_.is_exhausted(); ++number) work(number);
    } else {
      for (const Index number : numbers_) work(number);
    }
  }

  void report(const std::vector<Index>& missing, std::vector<std::string>& names, const Identity& first,
              FoldedIssues& issues) const {
    const plan::OwnerRule& owner = lookup_.owner();
    std::sort(names.begin(), names.end());
    const std::string message = fmt::format(
        "no rank stores it{}; on axis '{}' `owner` counts ${} from 0 to {}, and tensors like '{}' lack {}{}; add what "
        "is "
        "missing, correct the count, or give a pattern that does not match these numbers",
        lookup_.stored_as(missing.front()), owner.axis, *owner.capture, owner.count - 1, first.name,
        number_list(missing), names.size() > 1 ? ": " + listed(names) : "");
    const std::string cause = fmt::format("{} {}", owner.axis, number_list(missing));
    for (const std::string& name : names) issues.add(lookup_.rule().number, ErrorCode::kMissing, name, message, cause);
  }

  Lookup lookup_;
  std::map<std::vector<std::string>, Group> groups_;
  std::set<Index> numbers_;
};

/// All that rules count on one axis up to one count, all locally in the source or none.
class AxisCount {
 public:
  void add(Lookup lookup, const std::vector<const Identity*>& identities) {
    if (identities.empty()) return;
    counted_.push_back({lookup, identities.front()});
    is_required_ = is_required_ || !lookup.rule().optional;
    for (const Identity* identity : identities) numbers_.insert(captured_number(lookup.owner(), identity->captures));
    local_ = lookup.local_owner();
  }

  void report(const plan::ParallelPlan& plan, FoldedIssues& issues, std::vector<Warning>& warnings) const {
    if (counted_.empty() || !is_required_) return;
    for (const Counted& counted : counted_)
      if (issues.has(counted.lookup.rule().number)) return;  // what it lacks is told already
    if (local_ != nullptr) {
      if (const Absent cut_short = absent_at_ends(); !cut_short.numbers.empty()) return refuse(cut_short, issues);
    }
    const Absent absent = absent_in(0, counted_.front().lookup.owner().count);
    if (absent.numbers.empty()) return;
    warnings.push_back({"W_COUNT", rule_place(plan, absent.counted->lookup.rule().number), absent.name,
                        fmt::format("{}: is the checkpoint whole, and the count that of the model?", text(absent))});
  }

 private:
  struct Counted {
    Lookup lookup;
    const Identity* first;
  };
  /// Numbers that no tensor has and some rule would match; who would, and the first name.
  struct Absent {
    std::vector<Index> numbers;
    const Counted* counted = nullptr;
    std::string name;
  };

  static std::string text(const Absent& absent) {
    const plan::OwnerRule& owner = absent.counted->lookup.owner();
    return fmt::format("of 0 to {}, which `owner` counts on axis '{}', no tensor has number {}", owner.count - 1,
                       owner.axis, number_list(absent.numbers));
  }

  void refuse(const Absent& absent, FoldedIssues& issues) const {
    issues.add(
        absent.counted->lookup.rule().number, ErrorCode::kMissing, absent.name,
        fmt::format("no rank stores it{}: {}; numbers are local, so a count or `split` that is not the model's gives "
                    "tensors wrong numbers: correct it, or say `optional: true` in the rules that count them where "
                    "the checkpoint is meant to lack them",
                    absent.counted->lookup.stored_as(absent.numbers.front()), text(absent)));
  }

  void look(Index begin, Index end, Absent& out) const {
    for (Index number = begin; number < end && !counted_.front().lookup.is_exhausted(); ++number) {
      if (numbers_.contains(number)) continue;
      for (const Counted& counted : counted_) {
        std::optional<std::string> name = counted.lookup.absent(number, *counted.first);
        if (!name) continue;
        out.numbers.push_back(number);
        if (out.counted == nullptr) {
          out.counted = &counted;
          out.name = std::move(*name);
        }
        break;
      }
    }
  }
  Absent absent_in(Index begin, Index end) const {
    Absent out;
    look(begin, end, out);
    return out;
  }
  /// Behind the last one that a coordinate has, up to the last one that it should have, where others come after it.
  Absent absent_at_ends() const {
    Absent out;
    const layout::Ownership owned = ownership(*local_);
    for (Index coordinate = 0; coordinate < local_->axis_size; ++coordinate) {
      const auto [first, count] = owned.numbers_of(coordinate);
      if (first + count > *numbers_.rbegin()) break;
      Index begin = first;
      for (auto it = numbers_.lower_bound(first); it != numbers_.end() && *it < first + count; ++it) begin = *it + 1;
      look(begin, first + count, out);
    }
    return out;
  }

  std::vector<Counted> counted_;
  std::set<Index> numbers_;
  bool is_required_ = false;
  const plan::OwnerRule* local_ = nullptr;  ///< of a source that numbers locally
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

std::vector<Warning> check_numbers(const plan::ParallelPlan& plan, const std::vector<Identity>& identities,
                                   const std::vector<std::string>& others, FoldedIssues& issues) {
  if (std::all_of(plan.rules.begin(), plan.rules.end(),
                  [](const plan::Rule& rule) { return counting_owners(rule).empty(); }))
    return {};
  std::vector<std::vector<const Identity*>> of_rule(plan.rules.size());
  Names known(others.begin(), others.end());
  for (const Identity& identity : identities) {
    known.insert(identity.name);
    if (identity.rule != kNoRule) of_rule[identity.rule].push_back(&identity);
  }
  std::size_t lookups = 0;
  std::map<std::tuple<std::string, Index, bool>, AxisCount> counts;  // by axis, count, and whether it is a local one
  for (const plan::Rule& rule : plan.rules) {
    if (issues.has(rule.number)) continue;
    for (const plan::OwnerRule* owner : counting_owners(rule)) {
      const Lookup lookup(rule, *owner, known, lookups);
      GroupCheck groups(lookup);
      for (const Identity* identity : of_rule[rule.number]) groups.add(*identity);
      groups.report(issues);
      counts[{owner->axis, owner->count, lookup.local_owner() != nullptr}].add(lookup, of_rule[rule.number]);
    }
  }
  std::vector<Warning> warnings;
  for (const auto& [axis, count] : counts) count.report(plan, issues, warnings);
  return warnings;
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
  return missing.empty()
             ? ""
             : fmt::format("; on axis '{}' no tensor has number {} (of 0 to {})", owner.axis, missing, owner.count - 1);
}

}  // namespace reshard::planner
