#pragma once
// Ranks may have their tensors in one file only as replicas of each other (plan format section 3): a file holds one
// shard of a tensor.

#include <cstddef>
#include <string>
#include <vector>

#include "reshard/planner/binding.hpp"

namespace reshard::pipeline {

/// `file_of_rank`: numbers into `names`, for the side's ranks. Errors: kSchema (exit 3) for the first two ranks that
/// share a file and are no replicas.
void check_shared_files(const planner::BoundPlan& bound, layout::TensorLayout planner::LayoutPair::*side,
                        const std::string& side_name, const std::vector<std::size_t>& file_of_rank,
                        const std::vector<std::string>& names);

}  // namespace reshard::pipeline
