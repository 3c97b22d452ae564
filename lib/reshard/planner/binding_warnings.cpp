#include "reshard/planner/binding_warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "reshard/planner/binding_dtype.hpp"
#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {
namespace {

/// Per rule: what happened, and to which tensors.
using Causes = std::map<std::size_t, std::map<std::string, std::vector<std::string>>>;

void add(const plan::ParallelPlan& plan, std::string_view code, Causes causes, std::vector<Warning>& out) {
  for (auto& [rule, by_text] : causes) {
    std::string message;
    for (auto& [text, names] : by_text) {
      std::sort(names.begin(), names.end());
      message += fmt::format("{}{}: {}", message.empty() ? "" : "; ", text, name_list(names));
    }
    // One tensor is named in its own field, several are listed in the message.
    const bool one = by_text.size() == 1 && by_text.begin()->second.size() == 1;
    out.push_back({std::string(code), rule_place(plan, rule),
                   one ? std::optional(by_text.begin()->second.front()) : std::nullopt,
                   one ? by_text.begin()->first : std::move(message)});
  }
}

void add_idle_axes(const plan::ParallelPlan& plan, const plan::Side& side, std::string_view side_name,
                   const AxisNames& used, std::vector<Warning>& out) {
  AxisNames told;
  const auto look = [&](const layout::Mesh& mesh) {
    for (const layout::Axis& axis : mesh.axes()) {
      if (axis.size == 1 || used.contains(axis.name) || !told.insert(axis.name).second) continue;
      const bool makes_copies = axis.name == "cp" || axis.name == "dp";
      out.push_back({"W_AXIS_IDLE", plan.name, kNoTensor,
                     fmt::format("{} axis '{}' of size {} {}", side_name, axis.name, axis.size,
                                 makes_copies ? "cuts nothing: it makes copies"
                                              : "cuts nothing: every tensor is stored once per coordinate"),
                     makes_copies});
    }
  };
  look(side.mesh);
  for (const plan::View& view : side.views) look(view.mesh);
}

}  // namespace

std::vector<Warning> binding_warnings(const plan::ParallelPlan& plan, const std::vector<BoundIdentity>& tensors,
                                      const AxisNames& source_axes, const AxisNames& target_axes) {
  Causes fallbacks;
  Causes narrowings;
  for (const BoundIdentity& tensor : tensors) {
    const std::string& name = tensor.identity->name;
    const std::size_t rule = tensor.identity->rule;
    if (rule == kNoRule)
      fallbacks[rule]["no rule matches: whole on every rank (`unmatched: replicate`)"].push_back(name);
    for (const std::string& text : tensor.solution->fallbacks) fallbacks[rule][text].push_back(name);
    const SolvedTensor& solved = tensor.solution->tensors[tensor.position];
    if (solved.source_dtype != solved.target_dtype && narrows(solved.source_dtype, solved.target_dtype))
      narrowings[rule][fmt::format("{} to {} is rounded", reshard::name(solved.source_dtype),
                                   reshard::name(solved.target_dtype))]
          .push_back(name);
  }
  std::vector<Warning> out;
  add(plan, "W_FALLBACK", std::move(fallbacks), out);
  add(plan, "W_NARROWING", std::move(narrowings), out);
  add_idle_axes(plan, plan.source, "source", source_axes, out);
  add_idle_axes(plan, plan.target, "target", target_axes, out);
  return out;
}

}  // namespace reshard::planner
