#include "reshard/planner/binding_units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {
namespace {

/// Whose a name of the catalog is; kNoRule where it has no rule or does not exist.
class NameOwners {
 public:
  NameOwners(const SourceCatalog& catalog, const std::vector<RuleMatch>& matches)
      : catalog_(&catalog), matches_(&matches) {}

  std::size_t rule_of(const std::string& name) const {
    const auto& tensors = catalog_->tensors;
    const auto found =
        std::lower_bound(tensors.begin(), tensors.end(), name,
                         [](const SourceTensor& tensor, const std::string& key) { return tensor.name < key; });
    if (found == tensors.end() || found->name != name) return kNoRule;
    return (*matches_)[static_cast<std::size_t>(found - tensors.begin())].rule;
  }

 private:
  const SourceCatalog* catalog_;
  const std::vector<RuleMatch>* matches_;
};

/// True where all required members are there and no other rule has taken one.
bool is_complete(const plan::Rule& rule, const SourceCatalog& catalog, const Unit& unit, const NameOwners& owners,
                 FoldedIssues& issues) {
  const Identity& any = *unit.tensors.front();
  bool complete = true;
  for (std::size_t member = 0; member < rule.source.members.size(); ++member) {
    const plan::Member& wanted = rule.source.members[member];
    const bool here = std::any_of(unit.tensors.begin(), unit.tensors.end(),
                                  [&](const Identity* identity) { return identity->member == member; });
    if (here) continue;
    const std::size_t taker = owners.rule_of(any.stored_prefix(catalog) + "." + wanted.suffix);
    const bool taken = taker != kNoRule && taker != rule.number;
    if (!taken && wanted.may_be_absent) continue;
    complete = false;
    const std::string cause = fmt::format("{}:{}", wanted.suffix, taken ? taker : kNoRule);
    issues.add(rule.number, ErrorCode::kGroupIncomplete, any.name,
               taken ? fmt::format("member '{}' of group '{}' is taken by {}; a group is cut as a whole", wanted.suffix,
                                   any.prefix(), rule_name(taker))
                     : fmt::format("group '{}' has no member '{}'; where it may be absent write \"{}?\"", any.prefix(),
                                   wanted.suffix, wanted.suffix),
               cause);
  }
  return complete;
}

}  // namespace

std::vector<Unit> assemble_units(const plan::ParallelPlan& plan, const SourceCatalog& catalog,
                                 const std::vector<RuleMatch>& matches, const std::vector<Identity>& identities,
                                 FoldedIssues& issues) {
  std::vector<Unit> units;
  units.reserve(identities.size());
  std::unordered_map<std::string, std::size_t> group_of;  // rule and prefix
  for (const Identity& identity : identities) {
    if (identity.rule == kNoRule || !is_group(plan.rules[identity.rule])) {
      units.push_back({identity.rule, {&identity}});
      continue;
    }
    const auto [found, is_new] =
        group_of.try_emplace(fmt::format("{}:{}", identity.rule, identity.prefix()), units.size());
    if (is_new) units.push_back({identity.rule, {}});
    units[found->second].tensors.push_back(&identity);
  }
  const NameOwners owners(catalog, matches);
  std::erase_if(units, [&](Unit& unit) {
    if (unit.rule == kNoRule || !is_group(plan.rules[unit.rule])) return false;
    std::sort(unit.tensors.begin(), unit.tensors.end(),
              [](const Identity* a, const Identity* b) { return a->member < b->member; });
    return !is_complete(plan.rules[unit.rule], catalog, unit, owners, issues);
  });
  return units;
}

}  // namespace reshard::planner
