#include "reshard/pipeline/transfer_lists.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;

std::size_t hash_of(const std::vector<planner::Transfer>& transfers) {
  std::size_t out = transfers.size();
  const auto mix = [&](Index value) { out = (out ^ static_cast<std::size_t>(value)) * 0x9E3779B97F4A7C15U; };
  for (const planner::Transfer& transfer : transfers) {
    mix(transfer.source_rank);
    mix(transfer.target_rank);
    for (const planner::Box* box : {&transfer.source_box, &transfer.target_box})
      for (const planner::Interval& interval : *box) {
        mix(interval.begin);
        mix(interval.end);
      }
  }
  return out;
}

}  // namespace

std::size_t TransferLists::number_of(std::size_t t, std::size_t listed) {
  const std::size_t layout = prepared_.bound.tensors[t].layout;
  const auto [entry, added] = known_.try_emplace({layout, prepared_.work[t].sources}, 0);
  if (added) entry->second = find_or_add(layout, prepared_.work[t].sources, listed);
  return entry->second;
}

std::size_t TransferLists::find_or_add(std::size_t layout, const std::vector<Index>& sources, std::size_t listed) {
  const planner::LayoutPair& pair = prepared_.bound.layouts[layout];
  std::vector<planner::Transfer> transfers = planner::list_transfers(pair.source, pair.target, sources);
  if (rank_) std::erase_if(transfers, [&](const planner::Transfer& t) { return t.target_rank != *rank_; });
  std::vector<std::size_t>& alike = by_hash_[hash_of(transfers)];
  for (const std::size_t number : alike)
    if (out_[number].transfers == transfers) return number;
  alike.push_back(out_.size());
  out_.push_back({listed, std::move(transfers)});
  return alike.back();
}

}  // namespace reshard::pipeline
