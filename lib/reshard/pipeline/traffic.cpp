#include "reshard/pipeline/traffic.hpp"

#include <algorithm>

#include "reshard/base/checked.hpp"
#include "reshard/planner/held.hpp"

namespace reshard::pipeline {
namespace {

using layout::DimShard;
using planner::HeldRange;
using planner::Index;

/// What a part of a target dim needs of the ranges of the source's dim.
struct DimNeeds {
  struct Range {
    std::size_t number = 0;
    Index length = 0;
  };
  std::vector<Range> ranges;  // ascending, each once
  std::int64_t pieces = 0;    // contiguous on both sides: what a transfer's extent in this dim is
};

DimNeeds dim_needs(const DimShard& part, const std::vector<HeldRange>& ranges) {
  std::map<std::size_t, Index> lengths;
  DimNeeds out;
  for (const layout::Run& run : part.runs) {
    const Index run_end = run.global + run.length;
    auto range = std::upper_bound(ranges.begin(), ranges.end(), run.global,
                                  [](Index global, const HeldRange& r) { return global < r.global + r.length; });
    for (; range != ranges.end() && range->global < run_end; ++range) {
      const Index begin = std::max(run.global, range->global);
      const Index end = std::min(run_end, range->global + range->length);
      lengths[static_cast<std::size_t>(range - ranges.begin())] += end - begin;
      ++out.pieces;
    }
  }
  for (const auto& [number, length] : lengths) out.ranges.push_back({number, length});
  return out;
}

class NeedsFinder {
 public:
  explicit NeedsFinder(const planner::LayoutPair& pair) {
    for (std::size_t d = 0; d < pair.target.dims.size(); ++d) {
      const std::vector<HeldRange> ranges = planner::held_ranges(pair.source.dims[d]);
      range_counts_.push_back(ranges.size());
      std::vector<DimNeeds>& parts = dims_.emplace_back();
      for (const DimShard& part : pair.target.dims[d].parts) parts.push_back(dim_needs(part, ranges));
    }
  }

  ShardNeeds find(const std::vector<std::int32_t>& parts) {
    out_ = {};
    out_.transfers = 1;
    for (std::size_t d = 0; d < parts.size(); ++d)
      out_.transfers = checked_mul(out_.transfers, dims_[d][static_cast<std::size_t>(parts[d])].pieces);
    visit(parts, 0, 0, 1);
    return std::move(out_);
  }

 private:
  void visit(const std::vector<std::int32_t>& parts, std::size_t dim, std::size_t piece, Index elements) {
    if (dim == parts.size()) {
      out_.needs.push_back({piece, elements});
      return;
    }
    for (const DimNeeds::Range& range : dims_[dim][static_cast<std::size_t>(parts[dim])].ranges)
      visit(parts, dim + 1, piece * range_counts_[dim] + range.number, checked_mul(elements, range.length));
  }

  std::vector<std::size_t> range_counts_;    // by dim
  std::vector<std::vector<DimNeeds>> dims_;  // by dim, target part
  ShardNeeds out_;
};

/// Bytes of one element of a piece, summed over the tensors that read it from a rank.
using BytesByReader = std::map<Index, std::int64_t>;

}  // namespace

std::vector<ShardNeeds> shard_needs(const planner::LayoutPair& pair) {
  NeedsFinder finder(pair);
  std::map<std::vector<std::int32_t>, std::size_t> numbers;
  std::vector<ShardNeeds> out;
  std::vector<std::int32_t> parts(pair.target.dims.size());
  for (Index rank = 0; rank < pair.target.ranks; ++rank) {
    if (!pair.target.is_present(rank)) continue;
    for (std::size_t d = 0; d < parts.size(); ++d) parts[d] = pair.target.dims[d].part_of(rank);
    const auto [entry, added] = numbers.try_emplace(parts, out.size());
    if (added) out.push_back(finder.find(parts));
    out[entry->second].ranks.push_back(rank);
  }
  return out;
}

Traffic traffic_of(const planner::BoundPlan& bound, const std::vector<planner::WorkTensor>& work) {
  std::vector<std::vector<BytesByReader>> readers(bound.layouts.size());  // by layout, piece
  std::vector<std::int64_t> tensors(bound.layouts.size(), 0);
  for (std::size_t t = 0; t < bound.tensors.size(); ++t) {
    const std::size_t layout = bound.tensors[t].layout;
    ++tensors[layout];
    readers[layout].resize(work[t].sources.size());
    for (std::size_t piece = 0; piece < work[t].sources.size(); ++piece) {
      std::int64_t& bytes = readers[layout][piece][work[t].sources[piece]];
      bytes = checked_add(bytes, work[t].source_element_bytes);
    }
  }
  Traffic out;
  for (std::size_t layout = 0; layout < bound.layouts.size(); ++layout) {
    if (tensors[layout] == 0) continue;
    for (const ShardNeeds& shard : shard_needs(bound.layouts[layout])) {
      const auto ranks = static_cast<std::int64_t>(shard.ranks.size());
      out.transfers = checked_add(out.transfers, checked_mul(checked_mul(shard.transfers, ranks), tensors[layout]));
      for (const PieceNeed& need : shard.needs) {
        for (const auto& [source_rank, element_bytes] : readers[layout][need.piece]) {
          const std::int64_t bytes = checked_mul(need.elements, element_bytes);
          for (const Index target_rank : shard.ranks) {
            std::int64_t& sum = out.bytes[{source_rank, target_rank}];
            sum = checked_add(sum, bytes);
          }
        }
      }
    }
  }
  return out;
}

}  // namespace reshard::pipeline
