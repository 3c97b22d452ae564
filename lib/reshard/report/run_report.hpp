#pragma once
// What a run has done.

#include <string>

#include "reshard/pipeline/plan_summary.hpp"
#include "reshard/pipeline/run.hpp"

namespace reshard::report {

std::string run_text(const pipeline::PlanHeader& plan, const pipeline::RunResult& result);

/// "reshard.run": the plan's header as planned (`totals`, `estimate`, `memory`), then what was measured. `target` also
/// has `path`. Beside the keys of the interface: `side_files` (copied) and `side_files_left`.
std::string run_json(const pipeline::PlanHeader& plan, const pipeline::RunResult& result);

}  // namespace reshard::report
