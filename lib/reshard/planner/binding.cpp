#include "reshard/planner/binding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reshard/planner/binding_identity.hpp"
#include "reshard/planner/binding_issues.hpp"
#include "reshard/planner/binding_match.hpp"
#include "reshard/planner/binding_numbers.hpp"
#include "reshard/planner/binding_solver.hpp"
#include "reshard/planner/binding_units.hpp"
#include "reshard/planner/binding_warnings.hpp"

namespace reshard::planner {
namespace {

void check_world(const plan::ParallelPlan& plan, const SourceCatalog& catalog) {
  const Index ranks = plan.source.mesh.size();
  if (catalog.ranks == ranks) return;
  std::string axes;
  for (const layout::Axis& axis : plan.source.mesh.axes())
    axes += fmt::format("{}{}={}", axes.empty() ? "" : ", ", axis.name, axis.size);
  throw Error(
      Exit::kCheckpoint,
      {Issue{ErrorCode::kMeshWorld, plan.name, kNoTensor,
             fmt::format("the source has {} ranks, the plan's source axes [{}] make {}", catalog.ranks, axes, ranks)}});
}

/// Names of what the source has beside the identities: what the plan leaves out, and what is no tensor.
std::vector<std::string> other_names(const SourceCatalog& catalog, const std::vector<std::string>& dropped) {
  std::vector<std::string> out = dropped;
  for (const SourceTensor& tensor : catalog.tensors)
    if (tensor.refusal) out.push_back(tensor.name);
  return out;
}

/// Solves every unit; faults become issues of its tensors.
std::vector<BoundIdentity> solve_units(const plan::ParallelPlan& plan, const std::vector<Identity>& identities,
                                       const std::vector<Unit>& units, UnitSolver& solver, FoldedIssues& issues) {
  std::vector<BoundIdentity> out;
  MissingLayers layers(plan, identities);
  std::int64_t bytes = 0;
  for (const Unit& unit : units) {
    const Solution& solution = solver.solve(unit);
    for (const Fault& fault : solution.faults) {
      std::string message = fault.message;
      if (fault.code == ErrorCode::kMissing && unit.rule != kNoRule) message += layers.text(unit.rule);
      issues.add(unit.rule, fault.code, unit.tensors[fault.tensor]->name, message);
    }
    if (!solution.faults.empty()) continue;
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      const std::int64_t more = solution.tensors[i].target_bytes;
      const bool fits = more <= kMostTargetBytes - bytes;
      if (!fits)
        issues.add(unit.rule, ErrorCode::kOverflow, unit.tensors[i]->name,
                   "target: with the tensors before it there are more than 2^62 bytes");
      bytes += fits ? more : 0;
      out.push_back({unit.tensors[i], &solution, i});
    }
  }
  return out;
}

void count_rules(const plan::ParallelPlan& plan, const std::vector<RuleMatch>& matches, BoundPlan& out) {
  std::vector<bool> used(plan.rules.size());
  for (std::size_t i = 0; i < matches.size(); ++i) {
    const std::size_t rule = matches[i].rule;
    if (rule != kNoRule) used[rule] = true;
    if (rule == kNoRule && plan.unmatched == plan::Unmatched::kDrop) ++out.dropped_unmatched;
  }
  out.unused_optional_rules = static_cast<std::size_t>(std::count(used.begin(), used.end(), false));
}

}  // namespace

BoundPlan bind(const plan::ParallelPlan& plan, const SourceCatalog& catalog, const TensorNumbers& numbers) {
  check_world(plan, catalog);
  FoldedIssues issues(plan);
  std::vector<RuleMatch> matches = match_rules(plan, catalog);
  check_matches(plan, catalog, matches, issues);

  Presence source(plan.source);
  Presence target(plan.target);
  std::vector<Identity> identities = identify(plan, catalog, matches, source, issues);
  std::vector<std::string> dropped = dropped_names(plan, catalog, matches, source);
  const std::vector<Warning> counts = check_numbers(plan, identities, other_names(catalog, dropped), issues);
  check_target_names(plan, identities, target, issues);
  std::vector<Unit> units = assemble_units(plan, catalog, matches, identities, issues);
  UnitSolver solver(plan, catalog, numbers, source, target);
  const std::vector<BoundIdentity> bound = solve_units(plan, identities, units, solver, issues);
  issues.throw_if_any();

  BoundPlan out;
  count_rules(plan, matches, out);
  out.warnings = binding_warnings(plan, bound, solver.source_axes(), solver.target_axes());
  out.warnings.insert(out.warnings.end(), counts.begin(), counts.end());
  // What is no longer needed makes room; from here on the identities have no names.
  matches = {};
  units = {};
  out.tensors.reserve(bound.size());
  for (const BoundIdentity& tensor : bound) {
    Identity& identity = identities[static_cast<std::size_t>(tensor.identity - identities.data())];
    const SolvedTensor& solved = tensor.solution->tensors[tensor.position];
    const std::string& stored_name = catalog.tensors[identity.tensor].name;
    std::string source_local_name = stored_name == identity.name ? std::string() : stored_name;
    out.tensors.push_back({std::move(identity.name), std::move(source_local_name), std::move(identity.target_name),
                           std::move(identity.target_local_name), solved.source_dtype, solved.target_dtype,
                           identity.rule, solved.layout});
  }
  // Most keep the order of their source.
  const auto is_before = [](const BoundTensor& a, const BoundTensor& b) { return a.target_name < b.target_name; };
  if (!std::is_sorted(out.tensors.begin(), out.tensors.end(), is_before))
    std::sort(out.tensors.begin(), out.tensors.end(), is_before);
  std::vector<LayoutPair> pairs = solver.take_pairs();
  std::vector<std::size_t> new_position(pairs.size(), kNoRule);
  for (BoundTensor& tensor : out.tensors) {
    std::size_t& position = new_position[tensor.layout];
    if (position == kNoRule) {
      position = out.layouts.size();
      out.layouts.push_back(std::move(pairs[tensor.layout]));
    }
    tensor.layout = position;
  }
  out.dropped = std::move(dropped);
  return out;
}

}  // namespace reshard::planner
