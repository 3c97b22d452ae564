#pragma once
// A source with a manifest: what it records of a tensor against what the rule says of it (plan format section 2).

#include <cstddef>
#include <vector>

#include "reshard/layout/tensor_layout.hpp"
#include "reshard/planner/binding_solver.hpp"
#include "reshard/planner/binding_stored.hpp"

namespace reshard::planner {

/// The source layout of a tensor that is cut on its own and has a record: the record's where the rule says nothing of
/// the source, else the rule's cut (`source`) of the recorded shape. Faults: kShape where the rule cannot cut that
/// shape, or gives another `size`.
layout::TensorLayout recorded_source(const UnitWork& work, const layout::TensorCut& source, std::vector<Fault>& faults);

/// kShape where a rule's layout of tensor `tensor` of the unit is not the recorded one: other ranks, elements or stored
/// lengths. What padding holds plays no part.
void check_recorded(const UnitWork& work, const layout::TensorLayout& source, std::size_t tensor,
                    std::vector<Fault>& faults);

/// Adds both placements to the faults that a contradiction to the record shows as (kShape, kMissing), as kShape.
void name_recorded(const UnitWork& work, std::vector<Fault>& faults);

}  // namespace reshard::planner
