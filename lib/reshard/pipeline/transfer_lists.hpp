#pragma once
// The distinct lists of transfers of a plan's tensors.

#include <cstddef>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reshard/pipeline/prepare.hpp"
#include "reshard/planner/transfers.hpp"

namespace reshard::pipeline {

/// The transfers of the first listed tensor that has them, and of all others that have the same.
struct TransferList {
  std::size_t first_tensor = 0;  ///< index into PlanSummary::tensors
  std::vector<planner::Transfer> transfers;
};

/// Lists of one layout and the same readers are made once; lists of different layouts may still be equal.
class TransferLists {
 public:
  /// `rank`: only transfers into this target rank.
  TransferLists(const Prepared& prepared, std::optional<planner::Index> rank) : prepared_(prepared), rank_(rank) {}

  /// The number of the list of the plan's tensor `t`. `listed`: the number of `t` among those that are listed.
  std::size_t number_of(std::size_t t, std::size_t listed);
  std::vector<TransferList> take() { return std::move(out_); }

 private:
  std::size_t find_or_add(std::size_t layout, const std::vector<planner::Index>& sources, std::size_t listed);

  const Prepared& prepared_;
  std::optional<planner::Index> rank_;
  std::map<std::pair<std::size_t, std::vector<planner::Index>>, std::size_t> known_;
  std::unordered_map<std::size_t, std::vector<std::size_t>> by_hash_;
  std::vector<TransferList> out_;
};

}  // namespace reshard::pipeline
