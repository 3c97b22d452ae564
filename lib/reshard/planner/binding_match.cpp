#include "reshard/planner/binding_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "reshard/planner/binding_near.hpp"
#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {
namespace {

/// Up to this many unmatched tensors are named one by one; beyond, tensors whose names differ only in numbers share a
/// line.
constexpr std::size_t kMaxUnmatchedNames = 32;
constexpr std::size_t kMaxUnmatchedLines = 256;
constexpr std::size_t kMaxFormsSearched = 400;
constexpr std::size_t kMaxRulesSearched = 100;

/// Member positions, longest suffix first.
std::vector<std::size_t> longest_first(const std::vector<plan::Member>& members) {
  std::vector<std::size_t> out(members.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::stable_sort(out.begin(), out.end(),
                   [&](std::size_t a, std::size_t b) { return members[a].suffix.size() > members[b].suffix.size(); });
  return out;
}

std::optional<RuleMatch> match_one(const plan::Rule& rule, const std::vector<std::size_t>& members,
                                   const std::string& name) {
  if (!is_group(rule)) {
    auto captures = rule.match.match(name);
    if (!captures) return std::nullopt;
    return RuleMatch{rule.number, 0, std::move(*captures)};
  }
  for (const std::size_t member : members) {
    const std::string& suffix = rule.source.members[member].suffix;
    if (name.size() <= suffix.size() || !name.ends_with(suffix)) continue;
    const std::size_t dot = name.size() - suffix_bytes(rule, member);
    if (name[dot] != '.') continue;
    auto captures = rule.match.match(name.substr(0, dot));
    if (captures) return RuleMatch{rule.number, member, std::move(*captures)};
  }
  return std::nullopt;
}

std::string count_of(std::size_t count) {
  return fmt::format("{} {}", count, count == 1 ? "tensor" : "tensors");
}

/// Whose tensors these would have been: tensors an unused rule matches but an earlier rule won.
std::string taken_by(const plan::Rule& rule, const SourceCatalog& catalog, const std::vector<RuleMatch>& matches) {
  const std::vector<std::size_t> members = longest_first(rule.source.members);
  std::map<std::size_t, std::size_t> counts;
  for (std::size_t i = 0; i < catalog.tensors.size(); ++i)
    if (matches[i].rule < rule.number && match_one(rule, members, catalog.tensors[i].name)) ++counts[matches[i].rule];
  std::string out;
  for (const auto& [taker, count] : counts)
    out += fmt::format("{}{} by {}", out.empty() ? "" : ", ", count_of(count), rule_name(taker));
  return out;
}

/// One name of every form, those without a rule first.
std::vector<std::string> sample_names(const SourceCatalog& catalog, const std::vector<RuleMatch>& matches) {
  std::vector<std::string> out;
  std::set<std::string> forms;
  for (const bool unmatched : {true, false})
    for (std::size_t i = 0; i < catalog.tensors.size() && out.size() < kMaxFormsSearched; ++i)
      if ((matches[i].rule == kNoRule) == unmatched && forms.insert(name_form(catalog.tensors[i].name)).second)
        out.push_back(catalog.tensors[i].name);
  return out;
}

/// The pattern of whole names: of a group with its members' suffixes as alternatives.
std::string name_pattern(const plan::Rule& rule) {
  const std::string& pattern = rule.match.text();
  if (!is_group(rule) || pattern.starts_with("re:")) return pattern;
  std::vector<std::string> suffixes;
  for (const plan::Member& member : rule.source.members) suffixes.push_back(member.suffix);
  return fmt::format("{}.{{{}}}", pattern, fmt::join(suffixes, ","));
}

std::string unused_message(const plan::Rule& rule, const SourceCatalog& catalog, const std::vector<RuleMatch>& matches,
                           const std::vector<std::string>& samples) {
  const std::string takers = taken_by(rule, catalog, matches);
  if (!takers.empty())
    return fmt::format("'{}' wins for no tensor: what it matches is taken ({}); the first rule that matches wins",
                       rule.match.text(), takers);
  std::string message =
      fmt::format("'{}' matches none of the {} of the source", rule.match.text(), count_of(catalog.tensors.size()));
  const std::string wide = with_wide_stars(name_pattern(rule));
  const plan::NamePattern wide_pattern(wide);
  const auto meant = std::find_if(samples.begin(), samples.end(),
                                  [&](const auto& name) { return wide_pattern.match(name).has_value(); });
  const std::vector<std::string> near = nearest_names(name_pattern(rule), samples);
  if (meant != samples.end()) {
    message += fmt::format("; `*` stops at '.' and '/': '**' in its place, as in '{}', matches '{}'", wide, *meant);
  } else if (!near.empty()) {
    message += fmt::format("; nearest: '{}'", fmt::join(near, "', '"));
  }
  return message + "; where that is fine say `optional: true`";
}

void add_unmatched(const plan::ParallelPlan& plan, const SourceCatalog& catalog, const std::vector<RuleMatch>& matches,
                   FoldedIssues& issues) {
  std::vector<std::size_t> unmatched;
  for (std::size_t i = 0; i < matches.size(); ++i)
    if (matches[i].rule == kNoRule) unmatched.push_back(i);
  struct Line {
    std::size_t first;
    std::size_t count = 0;
  };
  std::vector<Line> lines;
  std::map<std::string, std::size_t> line_of;
  for (const std::size_t tensor : unmatched) {
    const std::string& name = catalog.tensors[tensor].name;
    const auto [found, is_new] =
        line_of.try_emplace(unmatched.size() > kMaxUnmatchedNames ? name_form(name) : name, lines.size());
    if (is_new) lines.push_back({tensor});
    ++lines[found->second].count;
  }
  std::vector<bool> used(plan.rules.size());
  for (const RuleMatch& match : matches)
    if (match.rule != kNoRule) used[match.rule] = true;
  std::vector<std::string> patterns;
  for (std::size_t rule = 0; rule < plan.rules.size() && rule < kMaxRulesSearched; ++rule)
    patterns.push_back(name_pattern(plan.rules[rule]));
  constexpr std::string_view kChoices = "add a rule, or say `unmatched: replicate` or `unmatched: drop`";
  for (std::size_t i = 0; i < lines.size() && i < kMaxUnmatchedLines; ++i) {
    const SourceTensor& tensor = catalog.tensors[lines[i].first];
    std::string message = plan.rules.size() == 1 ? "the only rule does not match it"
                                                 : fmt::format("none of the {} rules matches", plan.rules.size());
    if (lines[i].count > 1)
      message += fmt::format(", nor the other {} of the form '{}'", lines[i].count - 1, name_form(tensor.name));
    if (tensor.refusal) message += fmt::format(" (and it is no tensor: {})", tensor.refusal->message);
    if (const std::optional<std::size_t> near = nearest_pattern(tensor.name, patterns, used))
      message += fmt::format("; nearest: {} '{}'", rule_name(*near), patterns[*near]);
    issues.add(kNoRule, ErrorCode::kTensorUnmatched, tensor.name, fmt::format("{}; {}", message, kChoices),
               tensor.name);
  }
  if (lines.size() > kMaxUnmatchedLines)
    issues.add(kNoRule, ErrorCode::kTensorUnmatched, kNoTensor,
               fmt::format("{} more kinds of names have no rule; {} tensors in all", lines.size() - kMaxUnmatchedLines,
                           unmatched.size()));
}

}  // namespace

bool is_group(const plan::Rule& rule) {
  return !rule.source.members.empty();
}

std::size_t suffix_bytes(const plan::Rule& rule, std::size_t member) {
  return is_group(rule) ? rule.source.members[member].suffix.size() + 1 : 0;
}

std::vector<RuleMatch> match_rules(const plan::ParallelPlan& plan, const SourceCatalog& catalog) {
  std::vector<std::vector<std::size_t>> members;
  for (const plan::Rule& rule : plan.rules) members.push_back(longest_first(rule.source.members));
  std::vector<RuleMatch> out(catalog.tensors.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    for (std::size_t rule = 0; rule < plan.rules.size() && out[i].rule == kNoRule; ++rule)
      if (auto match = match_one(plan.rules[rule], members[rule], catalog.tensors[i].name)) out[i] = std::move(*match);
  return out;
}

void check_matches(const plan::ParallelPlan& plan, const SourceCatalog& catalog, const std::vector<RuleMatch>& matches,
                   FoldedIssues& issues) {
  std::vector<bool> used(plan.rules.size());
  for (const RuleMatch& match : matches)
    if (match.rule != kNoRule) used[match.rule] = true;
  std::vector<std::string> samples;
  for (const plan::Rule& rule : plan.rules) {
    if (used[rule.number] || rule.optional) continue;
    if (samples.empty()) samples = sample_names(catalog, matches);
    issues.add(rule.number, ErrorCode::kRuleUnused, kNoTensor, unused_message(rule, catalog, matches, samples));
  }
  if (plan.unmatched == plan::Unmatched::kError) add_unmatched(plan, catalog, matches, issues);
}

}  // namespace reshard::planner
