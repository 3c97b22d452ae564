#pragma once
// A dry run for people and for programs (interface section 6).

#include <string>

#include "reshard/pipeline/plan_summary.hpp"

namespace reshard::report {

/// Names folded (`model.layers.{0..31}.mlp.gate_proj.weight`), within 80 columns where names allow it. Where the
/// summary has shards, tensors are drawn.
std::string plan_text(const pipeline::PlanSummary& summary);

/// A page for a browser, complete in one file: it loads nothing and needs no network. Names and files are data in it,
/// never markup. The summary has shards, and transfers of every layout.
std::string plan_html(const pipeline::PlanSummary& summary);

/// "reshard.plan". Beside the keys of the interface: `dropped` (names), `dropped_unmatched`, `unused_optional_rules`,
/// and of a tensor with packed sequences `padded_offsets` (dim -> offsets), each only where there are any. `local` is
/// there where a rank was asked for; `tensors` then has only what that rank stores, with the transfers into it. The
/// rule of a tensor that none matches (`unmatched: replicate`) is null.
std::string plan_json(const pipeline::PlanSummary& summary);

}  // namespace reshard::report
