#pragma once
// Names of the stages of a run, as reports have them.

#include <array>
#include <string_view>

#include "reshard/pipeline/ledger.hpp"

namespace reshard::report {

/// By pipeline::Stage.
inline constexpr std::array<std::string_view, pipeline::kStages> kStageNames = {"read",   "pack",  "exchange",
                                                                                "unpack", "write", "publish"};

}  // namespace reshard::report
