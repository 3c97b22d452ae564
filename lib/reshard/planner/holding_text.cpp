#include "reshard/planner/holding_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "reshard/base/checked.hpp"
#include "reshard/planner/binding_cuts.hpp"
#include "reshard/planner/binding_match.hpp"
#include "reshard/planner/binding_owners.hpp"
#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {
namespace {

constexpr std::size_t kRulesInMessages = 4;
constexpr std::size_t kRunsInMessages = 3;

/// Numbers first, first + 1, ... as "2 to 3".
std::string numbers_text(Index first, Index count) {
  return count == 1 ? fmt::format("{}", first) : fmt::format("{} to {}", first, first + count - 1);
}

/// " with $1 = 2 to 3 of axis ep" for each owner that counts; nothing where the rank has no tensor of the rule.
std::optional<std::string> owned_text(const plan::Rule& rule, const plan::Side& side, Index rank) {
  std::string out;
  for (const plan::OwnerRule& owner : rule.source.owners) {
    const Index coordinate = side.mesh_of(rule.source.view).coordinate(rank, owner.axis);
    const layout::Ownership numbered = ownership(owner);
    if (owner.capture) {
      const auto [first, count] = numbered.numbers_of(coordinate);
      if (count == 0) return std::nullopt;
      if (owner.axis_size == 1) continue;
      out += fmt::format("{} ${} = {} of axis {}", out.empty() ? " with" : " and", *owner.capture,
                         numbers_text(first, count), owner.axis);
      if (owner.local_numbering) out += fmt::format(" ({} in the file)", numbers_text(0, count));
    } else if (std::none_of(owner.indices.begin(), owner.indices.end(),
                            [&](Index number) { return numbered.locate(number).coordinate == coordinate; })) {
      return std::nullopt;
    }
  }
  return out;
}

/// The true size of a dim of which a rank stores `stored` elements: as the plan says, or where all ranks store as many.
std::optional<Index> true_size(const layout::DimCut& cut, Index stored) {
  if (cut.size) return cut.size;
  if (cut.pad_total) return std::nullopt;
  Index size = stored;
  for (const layout::Level& level : cut.levels) {
    const bool equal_parts = level.split == layout::Split::kEven && level.fallback == layout::Fallback::kError &&
                             !level.pad_to && !level.pad_rows && !level.packed;
    if (!equal_parts) return std::nullopt;
    size = checked_mul(size, level.axis_size);
  }
  return size;
}

/// The rank's part of a dim of which `peer` stores `stored` elements; nothing where that does not tell the true size.
std::optional<std::string> dim_text(const layout::DimCut& cut, const layout::Mesh& mesh, Index rank, Index peer,
                                    Index stored) {
  const std::optional<Index> length = true_size(cut, stored);
  if (!length) return std::nullopt;
  layout::DimCut decided = cut;
  std::vector<std::string> fallen_back;
  if (layout::resolve_fallbacks(decided, *length, fallen_back)) return std::nullopt;
  const layout::DimLayout dim = layout::lay_out_dim(decided, *length, mesh);
  if (dim.shard_of(peer).stored_length != stored) return std::nullopt;
  const std::vector<layout::Run>& runs = dim.shard_of(rank).runs;
  if (runs.empty()) return std::string("no element");
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < runs.size() && i < kRunsInMessages; ++i)
    parts.push_back(numbers_text(runs[i].global, runs[i].length));
  if (runs.size() > kRunsInMessages) parts.push_back(fmt::format("and more, {} runs in all", runs.size()));
  return fmt::format("elements {}", fmt::join(parts, ", "));
}

/// ", elements 4 to 7 of dim 1" for each dim that is cut.
std::string cut_text(const plan::Rule& rule, const plan::Side& side, Index rank, const SourceTensor& tensor) {
  if (is_group(rule)) return ", what is its own of every member";
  if (tensor.stored.empty()) return "";
  const StoredRun& peer = tensor.stored.front();
  const layout::Mesh& mesh = side.mesh_of(rule.source.view);
  std::string out;
  try {
    const std::vector<layout::DimCut> cuts = cuts_by_position(rule.source.shard, peer.shape.size(), mesh);
    for (std::size_t d = 0; d < cuts.size(); ++d) {
      const bool is_cut = std::any_of(cuts[d].levels.begin(), cuts[d].levels.end(),
                                      [](const layout::Level& level) { return level.axis_size > 1; });
      if (!is_cut) continue;
      const auto text = dim_text(cuts[d], mesh, rank, peer.first_rank, peer.shape[d]);
      out += fmt::format(", {} of dim {}", text.value_or("what is its own"), d);
    }
  } catch (const Error&) {
    return "";  // the plan does not fit the tensor, which is said once all files are there
  }
  return out;
}

}  // namespace

std::string holding_text(const plan::ParallelPlan& plan, Index rank, const SourceCatalog& others) {
  std::vector<std::optional<std::size_t>> sample(plan.rules.size());
  const std::vector<RuleMatch> matches = match_rules(plan, others);
  for (std::size_t i = 0; i < matches.size(); ++i)
    if (matches[i].rule != kNoRule && !sample[matches[i].rule]) sample[matches[i].rule] = i;
  std::vector<std::string> parts;
  for (const plan::Rule& rule : plan.rules) {
    // A rule without tensors among the others' has them here alone, or nowhere.
    if (rule.drop || (rule.optional && !sample[rule.number])) continue;
    const std::optional<std::string> owned = owned_text(rule, plan.source, rank);
    if (!owned) continue;
    const std::string cut =
        sample[rule.number] ? cut_text(rule, plan.source, rank, others.tensors[*sample[rule.number]]) : "";
    parts.push_back(fmt::format("'{}' ({}){}{}", rule.match.text(), rule_name(rule.number), *owned, cut));
  }
  if (parts.size() > kRulesInMessages) {
    const std::size_t more = parts.size() - kRulesInMessages;
    parts.resize(kRulesInMessages);
    parts.push_back(fmt::format("tensors of {} more", more == 1 ? "one rule" : fmt::format("{} rules", more)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace reshard::planner
