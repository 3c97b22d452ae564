#include "reshard/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reshard/base/error.hpp"
#include "reshard/plan/canonical.hpp"
#include "reshard/plan/faults.hpp"
#include "reshard/plan/shared_files.hpp"
#include "reshard/plan/variables.hpp"

namespace reshard::plan {
namespace {

const std::vector<std::string> kKeys = {"reshard", "source", "target", "tensors", "unmatched", "fallback", "vars"};
const std::vector<std::string> kUnmatched = {"error", "replicate", "drop"};
constexpr std::int64_t kVersion = 1;

class PlanReader {
 public:
  PlanReader(const PlanOptions& options, Faults& faults) : options_(options), faults_(faults) {}

  ParallelPlan run(const Value& root) {
    const Fields fields(Node{&root, "", root.position}, kKeys, faults_);
    if (!fields.is_map()) return std::move(plan_);
    read_version(fields);
    read_sides(fields);
    if (const auto unmatched = fields.find("unmatched"))
      plan_.unmatched = static_cast<Unmatched>(read_choice(*unmatched, kUnmatched, faults_).value_or(0));
    RuleScope scope{&plan_.source, &plan_.target, layout::Fallback::kError};
    if (const auto fallback = fields.find("fallback")) scope.fallback = read_default_fallback(*fallback, faults_);
    if (const auto tensors = fields.require("tensors", faults_)) read_rules(*tensors, scope);
    if (options_.allow_extra) plan_.unmatched = Unmatched::kDrop;
    if (options_.allow_missing)
      for (Rule& rule : plan_.rules) rule.optional = true;
    check_files(fields);
    return std::move(plan_);
  }

 private:
  void read_version(const Fields& fields) {
    const auto version = fields.require("reshard", faults_);
    if (version && !((*version)->is_integer() && (*version)->integer() == kVersion))
      faults_.add(ErrorCode::kSchema, *version,
                  fmt::format("found {}, expected {}: the version of the plan format that this tool reads",
                              describe(**version), kVersion));
  }

  void read_sides(const Fields& fields) {
    const Side* manifest = options_.manifest_source ? &*options_.manifest_source : nullptr;
    if (const auto source = fields.find("source")) {
      plan_.source = read_side(*source, Role::kSource, manifest, faults_);
    } else if (manifest != nullptr) {
      plan_.source.mesh = manifest->mesh;
      plan_.source.views = manifest->views;
    }
    const auto target = fields.require("target", faults_);
    if (target) plan_.target = read_side(*target, Role::kTarget, nullptr, faults_);
    if (options_.target_format) {
      const auto& known = format_names();
      if (std::find(known.begin(), known.end(), *options_.target_format) == known.end())
        faults_.add_option(ErrorCode::kSchema, "--target-format",
                           fmt::format("found '{}', expected one of {}", *options_.target_format, join(known)));
      plan_.target.format = options_.target_format;
    }
    if (target && (*target)->is_object()) check_file_size_limit(plan_.source, plan_.target, *target, faults_);
  }

  void read_rules(const Node& tensors, const RuleScope& scope) {
    if (!expect_list(tensors, "a list of rules", faults_)) return;
    for (std::size_t i = 0; i < tensors->array().size(); ++i)
      plan_.rules.push_back(read_rule(child(tensors, i), i, scope, faults_));
  }

  /// Of sides and rules that were read without fault.
  void check_files(const Fields& fields) {
    if (faults_.reports() > 0) return;
    if (const auto source = fields.find("source"))
      check_shared_files(plan_.source, plan_.rules, &Rule::source, *source, faults_);
    if (const auto target = fields.find("target"))
      check_shared_files(plan_.target, plan_.rules, &Rule::target, *target, faults_);
  }

  const PlanOptions& options_;
  Faults& faults_;
  ParallelPlan plan_;
};

/// Readers of text know no phase; here whatever they refuse is a fault of the plan alone.
Value read_text(std::string_view text, Notation notation, std::string_view name) {
  try {
    return read_document(text, notation, name);
  } catch (const Error& error) {
    throw Error(Exit::kPlan, error.issues());
  }
}

}  // namespace

ParallelPlan read_plan(std::string_view text, Notation notation, std::string_view name, const PlanOptions& options) {
  const Value written = read_text(text, notation, name);
  Faults faults(name);
  const Variables variables = read_variables(written, options.variables, faults);
  const Value root = substitute(written, variables, faults);
  ParallelPlan plan = PlanReader(options, faults).run(root);
  faults.throw_if_any();
  plan.name = name;
  plan.canonical = canonical_value(plan);
  return plan;
}

std::optional<std::string> read_path(Role side, std::string_view text, Notation notation, std::string_view name,
                                     const PlanOptions& options) {
  try {
    const Value written = read_text(text, notation, name);
    Faults faults(name);
    const Value root = substitute(written, read_variables(written, options.variables, faults), faults);
    const Value* const written_side = root.find(side == Role::kSource ? "source" : "target");
    const Value* const path = written_side == nullptr ? nullptr : written_side->find("path");
    if (path != nullptr && path->is_string()) return path->string();
  } catch (const Error&) {
    // read_plan finds the same fault, and reports it.
  }
  return std::nullopt;
}

}  // namespace reshard::plan
