#pragma once
// Reading plans in tests: the outcome of a refusal as "CODE place" lines.

#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/plan/plan.hpp"

namespace reshard::test {

inline plan::ParallelPlan read_yaml(std::string_view text, const plan::PlanOptions& options = {}) {
  return plan::read_plan(text, plan::Notation::kYaml, "p.yaml", options);
}

inline plan::ParallelPlan read_json(std::string_view text, const plan::PlanOptions& options = {}) {
  return plan::read_plan(text, plan::Notation::kJson, "p.json", options);
}

/// What reading throws; no issue where the plan is read.
inline std::vector<Issue> issues_of(std::string_view text, plan::Notation notation,
                                    const plan::PlanOptions& options = {}) {
  try {
    plan::read_plan(text, notation, "p", options);
  } catch (const Error& error) {
    if (error.exit() != Exit::kPlan) return {Issue{ErrorCode::kInternal, "", kNoTensor, "exit is not 3"}};
    return error.issues();
  }
  return {};
}

/// "E_SCHEMA p:2:5", one per fault; "read" where there is none.
inline std::string refusals(std::string_view text, plan::Notation notation = plan::Notation::kYaml,
                            const plan::PlanOptions& options = {}) {
  std::string out;
  for (const Issue& issue : issues_of(text, notation, options)) {
    if (!out.empty()) out += ", ";
    out += std::string(code_name(issue.code)) + " " + issue.where;
  }
  return out.empty() ? "read" : out;
}

}  // namespace reshard::test
