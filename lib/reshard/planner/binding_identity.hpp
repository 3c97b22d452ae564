#pragma once
// From stored names to tensors of the model. Where a source counts from 0 on every coordinate, one stored name is
// several tensors: each gets its global number in its name (`experts.0.w` on ep 1 of 2 with 4 experts is
// `experts.2.w`). Rename and the target's own numbering give the names on the other side.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding.hpp"
#include "reshard/planner/binding_issues.hpp"
#include "reshard/planner/binding_match.hpp"
#include "reshard/planner/binding_owners.hpp"
#include "reshard/planner/catalog.hpp"

namespace reshard::planner {

struct Identity {
  std::size_t tensor = 0;  ///< position in the catalog
  std::size_t rule = kNoRule;
  std::size_t member = 0;
  std::string name;                   ///< with global numbers
  std::size_t suffix_bytes = 0;       ///< of every name of this tensor: what its rule's pattern does not see
  std::vector<std::string> captures;  ///< with global numbers; none where no owner takes its number from them
  /// Coordinates the tensor lives on, by owner rule; axes on which it lives everywhere are left out.
  std::vector<BoundOwner> source_owners;
  std::vector<BoundOwner> target_owners;
  /// What the ranks of this tensor's own coordinates store; nothing where that is the whole catalog entry.
  std::optional<std::vector<StoredRun>> own_runs;
  std::string target_name;
  std::string target_local_name;             ///< in the target's files; empty where that is target_name
  std::optional<std::size_t> recorded = {};  ///< its layout by the manifest: index into SourceCatalog::recorded_layouts
  bool cut_by_manifest = false;  ///< the rule says nothing of the source: the recorded layout is the source's

  /// What the pattern matches: the name, in a group without the member's suffix.
  std::string prefix() const { return name.substr(0, name.size() - suffix_bytes); }
  std::string stored_prefix(const SourceCatalog& catalog) const {
    const std::string& stored = catalog.tensors[tensor].name;
    return stored.substr(0, stored.size() - suffix_bytes);
  }
  const std::string& target_stored_name() const { return target_local_name.empty() ? target_name : target_local_name; }
  const std::vector<StoredRun>& runs(const SourceCatalog& catalog) const {
    return own_runs ? *own_runs : catalog.tensors[tensor].stored;
  }
};

/// The tensors to be moved, in catalog order; takes the captures out of their matches. Dropped and refused entries are
/// none. Errors go to `issues`: kOwner,
/// kShape (a rule numbers tensors otherwise than the manifest), and the refusal of an entry that a rule would move.
std::vector<Identity> identify(const plan::ParallelPlan& plan, const SourceCatalog& catalog,
                               std::vector<RuleMatch>& matches, Presence& source, FoldedIssues& issues);

/// Names of the tensors that the plan leaves out, in catalog order; as stored where rule and name do not fit. Takes the
/// captures out of their matches.
std::vector<std::string> dropped_names(const plan::ParallelPlan& plan, const SourceCatalog& catalog,
                                       std::vector<RuleMatch>& matches, Presence& source);

/// Adds kRenameCollision where two tensors get one name in the target, or one stored name on one target rank.
void check_target_names(const plan::ParallelPlan& plan, const std::vector<Identity>& identities, Presence& target,
                        FoldedIssues& issues);

/// A number in place of another: as wide where that is written with leading zeros ("experts.03").
std::string number_text(Index number, const std::string& as_written);

/// `text`, which the pattern matches with these captures, with capture `capture` (from 1) replaced. Errors: kOwner
/// where it cannot be told which part of the text the capture is.
std::string replace_capture(const plan::NamePattern& pattern, const std::string& text,
                            const std::vector<std::string>& captures, std::size_t capture, const std::string& number);

}  // namespace reshard::planner
