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
  require(plan_outcome(json, plan::Notation::kYaml) == outcome, "JSON is read as YAML with the same outcome");
  if (!note(outcome.starts_with('{'))) return;
  require(plan_outcome(outcome, plan::Notation::kJson) == outcome, "a canonical form is its own canonical form");
}

}  // namespace reshard::fuzz
