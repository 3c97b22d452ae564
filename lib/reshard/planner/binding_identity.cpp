#include "reshard/planner/binding_identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory_resource>
#include <unordered_map>
#include <utility>

#include "reshard/planner/binding_stored.hpp"
#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {
namespace {

/// The part of `runs` on the ranks for which `is_here(rank)`.
template <typename IsHere>
std::vector<StoredRun> runs_on(const std::vector<StoredRun>& runs, IsHere is_here) {
  std::vector<StoredRun> out;
  for (const StoredRun& run : runs) {
    bool open = false;
    for (Index rank = run.first_rank; rank <= run.last_rank; ++rank) {
      const bool here = is_here(rank);
      if (here && open) {
        out.back().last_rank = rank;
      } else if (here) {
        out.push_back(run);
        out.back().first_rank = out.back().last_rank = rank;
      }
      open = here;
    }
  }
  return out;
}

void keep_if_limiting(std::vector<BoundOwner>& owners, BoundOwner owner) {
  if (static_cast<Index>(owner.indices.size()) < owner.count) owners.push_back(std::move(owner));
}

class Identifier {
 public:
  Identifier(const plan::ParallelPlan& plan, const SourceCatalog& catalog, Presence& source, FoldedIssues& issues)
      : plan_(plan), catalog_(catalog), source_(source), issues_(issues) {}

  void add(std::size_t tensor, RuleMatch& match) {
    const SourceTensor& entry = catalog_.tensors[tensor];
    Identity identity;
    identity.tensor = tensor;
    identity.rule = match.rule;
    identity.member = match.member;
    identity.name = entry.name;
    if (match.rule != kNoRule) identity.suffix_bytes = suffix_bytes(plan_.rules[match.rule], match.member);
    identity.captures = std::move(match.captures);
    const bool is_written = match.rule != kNoRule && plan_.rules[match.rule].source.is_written;
    identity.cut_by_manifest = !entry.recorded.empty() && !is_written;
    if (entry.refusal) {
      const std::string file = entry.refusal->where.empty() ? "" : fmt::format(" (in {})", entry.refusal->where);
      issues_.add(match.rule, entry.refusal->code, entry.name, entry.refusal->message + file);
      return;
    }
    try {
      if (identity.cut_by_manifest) {
        for (const RecordedTensor& recorded : entry.recorded) take_recorded(identity, recorded);
      } else if (match.rule == kNoRule) {
        finish(std::move(identity));
      } else {
        number(std::move(identity), 0);
      }
    } catch (const Error& error) {
      std::vector<Fault> faults;
      add_faults(error, 0, "", faults);
      // "number 40 of 32" and "number 41 of 32" are one cause.
      for (const Fault& fault : faults)
        issues_.add(match.rule, fault.code, entry.name, fault.message, name_form(fault.message));
    }
  }

  /// So many tensors at least, most likely.
  void expect(std::size_t tensors) { out_.reserve(tensors); }
  std::vector<Identity> take() { return std::exchange(out_, {}); }

 private:
  /// One of the tensors that the manifest says are stored under this name.
  void take_recorded(Identity identity, const RecordedTensor& recorded) {
    identity.recorded = recorded.layout;
    if (catalog_.tensors[identity.tensor].recorded.size() > 1) {
      const layout::TensorLayout& layout = catalog_.recorded_layouts[recorded.layout].layout;
      identity.own_runs = runs_on(identity.runs(catalog_), [&](Index rank) { return layout.is_present(rank); });
    }
    const bool is_renumbered = identity.name != recorded.name;
    identity.name = recorded.name;
    if (identity.rule != kNoRule && is_renumbered)
      if (auto captures = plan_.rules[identity.rule].match.match(identity.prefix()))
        identity.captures = std::move(*captures);
    finish(std::move(identity));
  }

  /// All but the target's names is known.
  void finish(Identity identity) {
    const std::vector<RecordedTensor>& recorded = catalog_.tensors[identity.tensor].recorded;
    if (!recorded.empty() && !identity.recorded) {
      const auto same = std::find_if(recorded.begin(), recorded.end(),
                                     [&](const RecordedTensor& tensor) { return tensor.name == identity.name; });
      if (same == recorded.end()) {
        issues_.add(
            identity.rule, ErrorCode::kShape, identity.name,
            fmt::format(
                "is stored as '{}', which by the source's manifest is '{}'; the rule's `owner` numbers otherwise",
                catalog_.tensors[identity.tensor].name, recorded.front().name),
            "numbering");
        return;
      }
      identity.recorded = same->layout;
    }
    if (identity.rule == kNoRule) {
      identity.target_name = identity.name;
    } else {
      const plan::Rule& rule = plan_.rules[identity.rule];
      name_target(identity, rule);
      if (rule.source.owners.empty() && rule.target.owners.empty()) identity.captures = {};
    }
    out_.push_back(std::move(identity));
  }

  /// Splits by the source's owner rules from `next` on that count locally, and resolves the others.
  void number(Identity identity, std::size_t next) {
    const plan::Rule& rule = plan_.rules[identity.rule];
    if (next == rule.source.owners.size()) {
      finish(std::move(identity));
      return;
    }
    const plan::OwnerRule& owner = rule.source.owners[next];
    if (!owner.local_numbering) {
      keep_if_limiting(identity.source_owners, owner_coordinates(owner, identity.captures));
      number(std::move(identity), next + 1);
      return;
    }
    const Index local = captured_number(owner, identity.captures);
    const layout::Ownership numbered = ownership(owner);
    const std::vector<Index>& coordinates = source_.coordinates(rule.source.view, owner.axis);
    for (Index coordinate = 0; coordinate < owner.axis_size; ++coordinate) {
      Identity here = identity;
      here.own_runs = runs_on(identity.runs(catalog_),
                              [&](Index rank) { return coordinates[static_cast<std::size_t>(rank)] == coordinate; });
      if (here.own_runs->empty()) continue;
      renumber(here, rule, *owner.capture, numbered.locate_local(coordinate, local).global);
      keep_if_limiting(here.source_owners, BoundOwner{owner.axis, {coordinate}, owner.axis_size});
      number(std::move(here), next + 1);
    }
  }

  static void renumber(Identity& identity, const plan::Rule& rule, std::size_t capture, Index number) {
    const std::string text = number_text(number, identity.captures[capture - 1]);
    if (text == identity.captures[capture - 1]) return;
    const std::string old = identity.prefix();
    const std::string prefix = replace_capture(rule.match, old, identity.captures, capture, text);
    identity.name.replace(0, old.size(), prefix);
    // Captures around the number change with it; where the global name is none the pattern matches, only the number
    // does.
    if (auto captures = rule.match.match(prefix)) {
      identity.captures = std::move(*captures);
    } else {
      identity.captures[capture - 1] = text;
    }
  }

  static void name_target(Identity& identity, const plan::Rule& rule) {
    const std::string prefix = identity.prefix();
    const std::string suffix = identity.name.substr(prefix.size());
    std::vector<std::string> stored_captures = identity.captures;
    std::string stored = prefix;
    for (const plan::OwnerRule& owner : rule.target.owners) {
      BoundOwner home = owner_coordinates(owner, identity.captures);
      if (owner.local_numbering) {
        const Index global = captured_number(owner, identity.captures);
        const std::string text =
            number_text(ownership(owner).locate(global).local, identity.captures[*owner.capture - 1]);
        if (!rule.rename) stored = replace_capture(rule.match, stored, stored_captures, *owner.capture, text);
        stored_captures[*owner.capture - 1] = text;
      }
      keep_if_limiting(identity.target_owners, std::move(home));
    }
    identity.target_name = (rule.rename ? plan::expand(*rule.rename, identity.captures) : prefix) + suffix;
    stored = (rule.rename ? plan::expand(*rule.rename, stored_captures) : stored) + suffix;
    if (stored != identity.target_name) identity.target_local_name = std::move(stored);
  }

  const plan::ParallelPlan& plan_;
  const SourceCatalog& catalog_;
  Presence& source_;
  FoldedIssues& issues_;
  std::vector<Identity> out_;
};

/// Whether two sets of ranks share one; an empty set is every rank.
bool meet(const std::vector<bool>& a, const std::vector<bool>& b) {
  if (a.empty() || b.empty()) return true;
  for (std::size_t rank = 0; rank < a.size(); ++rank)
    if (a[rank] && b[rank]) return true;
  return false;
}

}  // namespace

std::string number_text(Index number, const std::string& as_written) {
  if (as_written.size() > 1 && as_written[0] == '0') return fmt::format("{:0{}}", number, as_written.size());
  return fmt::format("{}", number);
}

std::string replace_capture(const plan::NamePattern& pattern, const std::string& text,
                            const std::vector<std::string>& captures, std::size_t capture, const std::string& number) {
  const std::string& old = captures[capture - 1];
  if (old == number) return text;
  std::vector<std::string> candidates;
  for (std::size_t at = text.find(old); !old.empty() && at != std::string::npos; at = text.find(old, at + 1)) {
    std::string candidate = text.substr(0, at) + number + text.substr(at + old.size());
    const auto matched = pattern.match(candidate);
    if (matched && (*matched)[capture - 1] == number) return candidate;
    candidates.push_back(std::move(candidate));
  }
  // A pattern may match local numbers only (`re:` with a range of digits); one occurrence leaves no choice.
  if (candidates.size() == 1) return candidates.front();
  throw Error(
      Issue{ErrorCode::kOwner, "", kNoTensor,
            fmt::format("cannot tell where ${} = '{}' stands in '{}' once it is {}: '{}' must match the name with "
                        "global numbers too",
                        capture, old, text, number, pattern.text())});
}

std::vector<Identity> identify(const plan::ParallelPlan& plan, const SourceCatalog& catalog,
                               std::vector<RuleMatch>& matches, Presence& source, FoldedIssues& issues) {
  Identifier identifier(plan, catalog, source, issues);
  identifier.expect(matches.size());
  for (std::size_t tensor = 0; tensor < matches.size(); ++tensor) {
    const std::size_t rule = matches[tensor].rule;
    if (rule == kNoRule ? plan.unmatched != plan::Unmatched::kReplicate : plan.rules[rule].drop) continue;
    identifier.add(tensor, matches[tensor]);
  }
  return identifier.take();
}

std::vector<std::string> dropped_names(const plan::ParallelPlan& plan, const SourceCatalog& catalog,
                                       std::vector<RuleMatch>& matches, Presence& source) {
  std::vector<std::string> out;
  FoldedIssues ignored(plan);
  Identifier identifier(plan, catalog, source, ignored);
  for (std::size_t tensor = 0; tensor < matches.size(); ++tensor) {
    const std::size_t rule = matches[tensor].rule;
    if (rule == kNoRule ? plan.unmatched != plan::Unmatched::kDrop : !plan.rules[rule].drop) continue;
    identifier.add(tensor, matches[tensor]);
    const std::vector<Identity> identities = identifier.take();
    for (const Identity& identity : identities) out.push_back(identity.name);
    if (identities.empty()) out.push_back(catalog.tensors[tensor].name);
  }
  return out;
}

void check_target_names(const plan::ParallelPlan& plan, const std::vector<Identity>& identities, Presence& target,
                        FoldedIssues& issues) {
  /// Several tensors of one stored name, which local numbers give.
  struct Holders {
    std::vector<std::size_t> identities;
    std::vector<bool> ranks;  ///< of all of them
  };
  using FirstOf = std::pmr::unordered_map<std::string_view, std::size_t>;
  std::pmr::monotonic_buffer_resource memory;  // of the maps: many small pieces, freed together
  FirstOf by_name(identities.size(), &memory);
  FirstOf by_stored_name(identities.size(), &memory);
  std::unordered_map<std::string_view, Holders> shared_names;
  const auto ranks_of = [&](std::size_t i) -> const std::vector<bool>& {
    const std::size_t rule = identities[i].rule;
    return target.ranks(rule == kNoRule ? std::string() : plan.rules[rule].target.view, identities[i].target_owners);
  };
  for (std::size_t i = 0; i < identities.size(); ++i) {
    const Identity& identity = identities[i];
    const auto [same_name, is_new] = by_name.try_emplace(identity.target_name, i);
    if (!is_new) {
      const Identity& other = identities[same_name->second];
      issues.add(identity.rule, ErrorCode::kRenameCollision, identity.name,
                 fmt::format("becomes '{}' in the target, and so does '{}' ({}){}", identity.target_name, other.name,
                             rule_place(plan, other.rule),
                             other.rule == identity.rule && identity.rule != kNoRule
                                 ? "; `rename` must use whatever tells them apart, as $1"
                                 : ""),
                 identity.target_name);
      continue;
    }
    const auto [first, is_first] = by_stored_name.try_emplace(identity.target_stored_name(), i);
    if (is_first) continue;
    Holders& holders = shared_names[identity.target_stored_name()];
    if (holders.identities.empty()) holders = {{first->second}, ranks_of(first->second)};
    holders.identities.push_back(i);
    const std::vector<bool>& ranks = ranks_of(i);
    if (meet(holders.ranks, ranks)) {
      const auto other = std::find_if(holders.identities.begin(), holders.identities.end(),
                                      [&](std::size_t known) { return meet(ranks_of(known), ranks); });
      issues.add(identity.rule, ErrorCode::kRenameCollision, identity.name,
                 fmt::format("is stored as '{}' in the target, and so is '{}' on the same rank ({})",
                             identity.target_stored_name(), identities[*other].name,
                             rule_place(plan, identities[*other].rule)),
                 "stored:" + identity.target_stored_name());
    } else {
      for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        if (ranks[rank]) holders.ranks[rank] = true;
    }
  }
}

}  // namespace reshard::planner
