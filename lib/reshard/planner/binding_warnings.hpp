#pragma once
// What a binding does that the user may not have meant, compactly: one warning per rule and kind, whatever the number
// of tensors.

#include <vector>

#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding.hpp"
#include "reshard/planner/binding_identity.hpp"
#include "reshard/planner/binding_solver.hpp"

namespace reshard::planner {

struct BoundIdentity {
  const Identity* identity = nullptr;
  const Solution* solution = nullptr;
  std::size_t position = 0;  ///< in the solution
};

/// W_FALLBACK by rule (tensors without a rule last), W_NARROWING by rule, W_AXIS_IDLE by side and axis.
std::vector<Warning> binding_warnings(const plan::ParallelPlan& plan, const std::vector<BoundIdentity>& tensors,
                                      const AxisNames& source_axes, const AxisNames& target_axes);

}  // namespace reshard::planner
