#include "reshard/pipeline/shared_files.hpp"

#include <fmt/format.h>

#include <map>

#include "reshard/base/error.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;

bool are_replicas(const planner::BoundPlan& bound, layout::TensorLayout planner::LayoutPair::*side, Index a, Index b) {
  for (const planner::LayoutPair& pair : bound.layouts) {
    const layout::TensorLayout& layout = pair.*side;
    if (layout.is_present(a) != layout.is_present(b)) return false;
    if (!layout.is_present(a)) continue;
    for (const layout::DimLayout& dim : layout.dims)
      if (dim.part_of(a) != dim.part_of(b)) return false;
  }
  return true;
}

}  // namespace

void check_shared_files(const planner::BoundPlan& bound, layout::TensorLayout planner::LayoutPair::*side,
                        const std::string& side_name, const std::vector<std::size_t>& file_of_rank,
                        const std::vector<std::string>& names) {
  std::map<std::size_t, Index> first_rank;
  for (std::size_t r = 0; r < file_of_rank.size(); ++r) {
    const auto rank = static_cast<Index>(r);
    const auto [first, added] = first_rank.try_emplace(file_of_rank[r], rank);
    if (added || are_replicas(bound, side, first->second, rank)) continue;
    throw Error(Exit::kPlan,
                {Issue{ErrorCode::kSchema, side_name, kNoTensor,
                       fmt::format("'files' puts ranks {} and {} both into {}, but they are no replicas of each other; "
                                   "name every axis that cuts in it",
                                   first->second, rank, names[file_of_rank[r]])}});
  }
}

}  // namespace reshard::pipeline
