#pragma once
// Lines that the text of a plan and of a run share.

#include <string>

#include "reshard/pipeline/plan_summary.hpp"

namespace reshard::report {

/// Source and target: mesh, ranks, format, bytes.
std::string sides_text(const pipeline::PlanHeader& plan);
/// "direct: why".
std::string transport_text(const pipeline::PlanHeader& plan);
/// Tensors left out, rules that matched nothing; nothing where there are none.
/// Where GPUs take part: what they hold; else nothing.
std::string device_text(const pipeline::PlanHeader& plan);
std::string left_out_text(const pipeline::PlanHeader& plan);

}  // namespace reshard::report
