#pragma once
// What the two targets of the plan reader hold every text to.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/target.hpp"
#include "reshard/base/value.hpp"
#include "reshard/plan/document.hpp"
#include "reshard/plan/plan.hpp"

namespace reshard::fuzz {

/// The canonical form of an accepted plan, or the sorted codes of a refusal.
inline std::string plan_outcome(std::string_view text, plan::Notation notation) {
  std::vector<std::string> codes;
  std::string out;
  try {
    out = canonical_json(plan::read_plan(text, notation, "p").canonical);
  } catch (const Error& error) {
    require(error.exit() == Exit::kPlan, "a plan is refused with exit 3");
    for (const Issue& issue : error.issues()) codes.emplace_back(code_name(issue.code));
  }
  std::sort(codes.begin(), codes.end());
  for (const std::string& code : codes) out += code + ' ';
  return out;
}

/// Whether YAML can read the canonical JSON of a document: a key on one line has at most 1024 characters there
/// (YAML 1.2.2, section 7.4.2).
inline bool has_yaml_keys(const Value& document) {
  constexpr std::size_t kMostBytes = 1024;
  const auto all = [](const auto& items, const auto& holds) { return std::all_of(items.begin(), items.end(), holds); };
  if (document.is_array()) return all(document.array(), has_yaml_keys);
  if (!document.is_object()) return true;
  return all(document.object(), [&](const Value::Member& member) {
    return canonical_json(Value(member.key)).size() <= kMostBytes && has_yaml_keys(member.value);
  });
}

/// A document means the same in both notations, and the canonical form of an accepted plan is a plan that is its own
/// canonical form.
inline void check_plan(std::string_view text, plan::Notation notation) {
  const std::string outcome = plan_outcome(text, notation);
  Value document;
  try {
    document = plan::read_document(text, notation, "p");
  } catch (const Error&) {
    note(false);
    return;
  }
  const std::string json = canonical_json(document);
  require(plan_outcome(json, plan::Notation::kJson) == outcome, "a plan's JSON form has the plan's outcome");
  if (has_yaml_keys(document))
    require(plan_outcome(json, plan::Notation::kYaml) == outcome, "JSON is read as YAML with the same outcome");
  if (!note(outcome.starts_with('{'))) return;
  require(plan_outcome(outcome, plan::Notation::kJson) == outcome, "a canonical form is its own canonical form");
}

}  // namespace reshard::fuzz
