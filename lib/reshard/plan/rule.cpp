#include "reshard/plan/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"
#include "reshard/plan/overrides.hpp"

namespace reshard::plan {
namespace {

const std::vector<std::string> kKeys = {"match",  "shard", "place",    "members",  "projection", "view",   "owner",
                                        "rename", "dtype", "fallback", "optional", "drop",       "source", "target"};
const std::vector<std::string> kPlacementKeys = {"shard", "place", "members", "projection", "view", "owner"};
const std::vector<std::string> kDefaultFallbacks = {"error", "replicate"};

NamePattern read_pattern(const Node& node, Faults& faults) {
  const auto text = read_string(node, faults);
  if (!text) return {};
  try {
    return NamePattern(*text);
  } catch (const Error& error) {
    faults.add(error.issues().front().code, node, error.issues().front().message);
    return {};
  }
}

std::optional<std::string> read_rename(const Node& node, const NamePattern& match, Faults& faults) {
  const auto text = read_string(node, faults);
  // Without a pattern, of which a fault has been reported, nothing is known of captures.
  if (!text || match.text().empty()) return text;
  for (const std::size_t reference : capture_references(*text))
    if (reference < 1 || reference > match.captures())
      faults.add(
          ErrorCode::kPattern, node,
          fmt::format("${} in '{}' names no capture; '{}' has {}", reference, *text, match.text(), match.captures()));
  return text;
}

std::optional<Dtype> read_dtype(const Node& node, Faults& faults) {
  const auto text = read_string(node, faults);
  if (!text) return std::nullopt;
  const std::optional<Dtype> dtype = dtype_from_name(*text);
  if (dtype && is_convertible(*dtype)) return dtype;
  std::vector<std::string> legal;
  for (const Dtype candidate : all_dtypes())
    if (is_convertible(candidate)) legal.emplace_back(name(candidate));
  faults.add(ErrorCode::kDtype, node,
             fmt::format("found '{}', expected one of {}; without 'dtype' bits are kept", *text, join(legal)));
  return std::nullopt;
}

/// The true size of a dim belongs to the tensor: what one side says holds for the other.
void share_sizes(Rule& rule, const Node& node, Faults& faults) {
  for (DimRule& source : rule.source.shard)
    for (DimRule& target : rule.target.shard) {
      if (source.dim != target.dim) continue;
      if (source.cut.size && target.cut.size && *source.cut.size != *target.cut.size)
        faults.add(ErrorCode::kShape, node,
                   fmt::format("dim {} has the size {} in the source and {} in the target; expected one true size",
                               source.dim, *source.cut.size, *target.cut.size));
      if (!source.cut.size) source.cut.size = target.cut.size;
      if (!target.cut.size) target.cut.size = source.cut.size;
    }
}

/// The length of a dim that the plan alone tells. Boundaries in a tensor are not known before the source is read.
std::optional<layout::Index> told_length(const layout::DimCut& cut) {
  for (const layout::Level& level : cut.levels)
    if (level.packed && !(level.packed->cu_seqlens_tensor.empty() && level.packed->cu_seqlens_padded_tensor.empty()))
      return std::nullopt;
  if (cut.size) return cut.size;
  if (cut.levels.empty()) return std::nullopt;
  const layout::Level& first = cut.levels.front();
  if (!first.segments.empty()) {
    layout::Index sum = 0;
    for (const layout::Segment& segment : first.segments) sum = checked_add(sum, segment.size);
    return sum;
  }
  if (!first.packed) return std::nullopt;
  const layout::PackedSequences& packed = *first.packed;
  return packed.cu_seqlens_padded.empty() ? packed.cu_seqlens.back() : packed.cu_seqlens_padded.back();
}

/// A dim that cannot be cut whatever the checkpoint holds, by the plan's own numbers.
void check_cuts(const Placement& placement, std::string_view side, const Node& node, Faults& faults) {
  for (const DimRule& dim : placement.shard) {
    const std::optional<layout::Index> length = told_length(dim.cut);
    layout::DimCut cut = dim.cut;
    std::vector<std::string> fallen_back;
    if (const auto refused =
            length ? layout::resolve_fallbacks(cut, *length, fallen_back) : layout::option_refusal(cut))
      faults.add(refused->code, node, fmt::format("{}: dim {}: {}", side, dim.dim, refused->message));
  }
}

/// Whether a rule says how a side has its tensors: in words for both sides, or in those of `changes`. `members` for
/// both say which tensors belong together, not where they are.
bool speaks_of_side(const Fields& rule, const std::optional<Node>& changes) {
  if (changes && !((*changes)->is_object() && (*changes)->object().empty())) return true;
  return std::any_of(kPlacementKeys.begin(), kPlacementKeys.end(),
                     [&](const std::string& key) { return key != "members" && rule.find(key).has_value(); });
}

/// What is left out has no name, type nor place in the target.
void refuse_target_words(const Fields& rule, Faults& faults) {
  for (const std::string_view key : {"rename", "dtype", "target"})
    if (const auto given = rule.find(key))
      faults.add(ErrorCode::kSchema, *given,
                 "excludes 'drop: true', which leaves the tensors out of the target; take one of them out");
}

std::vector<std::string> suffixes(const Placement& placement) {
  std::vector<std::string> out;
  for (const Member& member : placement.members) out.push_back(member.suffix);
  std::sort(out.begin(), out.end());
  return out;
}

/// Members may be cut otherwise on each side, but their names are the same.
void check_members_agree(const Rule& rule, const Node& node, Faults& faults) {
  const std::vector<std::string> source = suffixes(rule.source);
  const std::vector<std::string> target = suffixes(rule.target);
  if (source == target) return;
  if (source.empty() != target.empty()) {
    faults.add(ErrorCode::kSchema, node,
               fmt::format("has members in the {} only; a rule is a group on both sides or on none",
                           source.empty() ? "target" : "source"));
  } else {
    faults.add(ErrorCode::kSchema, node,
               fmt::format("members differ: {} in the source, {} in the target; expected the same suffixes",
                           join(source), join(target)));
  }
}

}  // namespace

layout::Fallback read_default_fallback(const Node& node, Faults& faults) {
  if (node->is_string() && node->string() == "repeat") {
    faults.add(ErrorCode::kSchema, node,
               "found 'repeat', expected one of error, replicate; 'repeat' is asked for per dim");
    return layout::Fallback::kError;
  }
  return read_choice(node, kDefaultFallbacks, faults).value_or(0) == 0 ? layout::Fallback::kError
                                                                       : layout::Fallback::kReplicate;
}

Rule read_rule(const Node& node, std::size_t number, const RuleScope& scope, Faults& faults) {
  Rule rule;
  rule.number = number;
  rule.position = node.position;
  const Fields fields(node, kKeys, faults);
  if (!fields.is_map()) return rule;
  if (const auto match = fields.require("match", faults)) rule.match = read_pattern(*match, faults);
  if (const auto rename = fields.find("rename")) rule.rename = read_rename(*rename, rule.match, faults);
  if (const auto dtype = fields.find("dtype")) rule.dtype = read_dtype(*dtype, faults);
  if (const auto optional = fields.find("optional")) rule.optional = read_boolean(*optional, faults).value_or(false);
  if (const auto drop = fields.find("drop")) rule.drop = read_boolean(*drop, faults).value_or(false);
  if (rule.drop) refuse_target_words(fields, faults);
  layout::Fallback fallback = scope.fallback;
  if (const auto given = fields.find("fallback")) fallback = read_default_fallback(*given, faults);

  const std::size_t reports_before = faults.reports();
  const SideWords base = base_words(fields, faults);
  const auto source_changes = fields.find("source");
  const auto target_changes = fields.find("target");
  const SideWords source = source_changes ? merge_words(base, *source_changes, faults) : base;
  const SideWords target = target_changes ? merge_words(base, *target_changes, faults) : base;

  const std::size_t captures = rule.match.captures();
  PlacementScope source_scope{scope.source, scope.target, "source", "", captures, fallback};
  PlacementScope target_scope{scope.target, scope.source, "target", "", captures, fallback};
  source_scope.other_view = read_view(target, node, target_scope, faults);
  target_scope.other_view = read_view(source, node, source_scope, faults);
  rule.source = read_placement(source, node, source_scope, faults);
  rule.source.is_written = speaks_of_side(fields, source_changes);
  if (rule.drop) return rule;  // its tensors have no place in the target
  rule.target = read_placement(target, node, target_scope, faults);
  rule.target.is_written = speaks_of_side(fields, target_changes);
  if (faults.reports() > reports_before) return rule;
  check_members_agree(rule, node, faults);
  share_sizes(rule, node, faults);
  check_cuts(rule.source, "source", node, faults);
  check_cuts(rule.target, "target", node, faults);
  return rule;
}

}  // namespace reshard::plan
