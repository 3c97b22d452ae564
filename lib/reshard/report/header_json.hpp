#pragma once
// Members that the JSON of a plan and of a run share.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/pipeline/plan_summary.hpp"
#include "reshard/report/json_document.hpp"

namespace reshard::report {

/// From `plan_digest` to `memory`. `target_path`: where a run has written, as `path` of `target`.
void add_header(JsonDocument& document, const pipeline::PlanHeader& plan,
                const std::optional<std::filesystem::path>& target_path);

/// From `warnings` on: what a reader should know beside the result.
void add_remarks(JsonDocument& document, const pipeline::PlanHeader& plan);

/// A list of warnings, one per line; a notice has the key `notice`.
void add_warnings(JsonDocument& document, const std::vector<Warning>& warnings);

/// ["a","b"]
std::string json_list(const std::vector<std::string>& texts);

}  // namespace reshard::report
