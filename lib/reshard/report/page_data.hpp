#pragma once
// What the page of a dry run shows, as compact JSON: a format between page_data.cpp and page/*.js alone, of no version.
//
// The members from `plan_digest` to `memory`, and the warnings, are those of the JSON report. Tensors are `groups` of
// folded names over `kinds` (what a group has in common) and `layouts` (how both sides cut it, and the transfers of the
// first tensor of the layout). Sets of ranks and numbers are runs [first, last, step].
//
// The size is bounded where names fold: traffic has at most 128 rows and columns, and once the layouts written take
// kDrawingBytes, those that no group begins with, and then all others, are null.

#include <cstddef>
#include <string>

#include "reshard/pipeline/plan_summary.hpp"

namespace reshard::report {

inline constexpr std::size_t kDrawingBytes = std::size_t{6} << 20;

/// The summary has shards, and transfers of every layout.
std::string page_data(const pipeline::PlanSummary& summary);

}  // namespace reshard::report
