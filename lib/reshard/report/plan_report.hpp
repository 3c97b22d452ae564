#pragma once
// A dry run for people and for programs (interface section 6).

#include <string>

#include "reshard/pipeline/plan_summary.hpp"

namespace reshard::report {

/// Names folded (`model.layers.{0..31}.mlp.gate_proj.weight`), within 80 columns where names allow it. The traffic
/// matrix is shown up to 16 ranks a side.
std::string plan_text(const pipeline::PlanSummary& summary);

/// "reshard.plan". Beside the keys of the interface: `dropped` (names), `dropped_unmatched`, `unused_optional_rules`,
/// and of a tensor with packed sequences `padded_offsets` (dim -> offsets), each only where there are any. `local` is
/// there where a rank was asked for; `tensors` then has only what that rank stores, with the transfers into it. The
/// rule of a tensor that none matches (`unmatched: replicate`) is null.
std::string plan_json(const pipeline::PlanSummary& summary);

}  // namespace reshard::report
