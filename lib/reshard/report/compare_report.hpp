#pragma once
// How two checkpoints differ.

#include <string>

#include "reshard/pipeline/compare.hpp"

namespace reshard::report {

/// A line of what is equal, then one for each difference.
std::string compare_text(const pipeline::CompareResult& result);

/// "reshard.compare". `at` is null where dtypes or shapes differ.
std::string compare_json(const pipeline::CompareResult& result);

}  // namespace reshard::report
