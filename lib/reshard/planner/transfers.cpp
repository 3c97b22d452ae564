#include "reshard/planner/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"

namespace reshard::planner {
namespace {

using layout::DimLayout;
using layout::DimShard;
using layout::Run;
using layout::TensorLayout;

// Target positions [target, target + length) lie in range number `range` of the source, `offset` after its beginning.
struct Hit {
  Index target = 0;
  std::size_t range = 0;
  Index offset = 0;
  Index length = 0;
};

// The boxes of one target shard, in target order; `source` and `target` hold one interval per dim and box.
struct ShardTransfers {
  std::vector<Index> source_ranks;
  std::vector<Interval> source;
  std::vector<Interval> target;
};

std::vector<std::int32_t> parts_of_rank(const TensorLayout& layout, Index rank) {
  std::vector<std::int32_t> out;
  out.reserve(layout.dims.size());
  for (const DimLayout& dim : layout.dims) out.push_back(dim.part_of(rank));
  return out;
}

std::vector<Hit> hits_of(const DimShard& shard, const std::vector<HeldRange>& ranges) {
  std::vector<Hit> out;
  for (const Run& run : shard.runs) {
    const Index run_end = run.global + run.length;
    auto range = std::upper_bound(ranges.begin(), ranges.end(), run.global,
                                  [](Index global, const HeldRange& r) { return global < r.global + r.length; });
    for (; range != ranges.end() && range->global < run_end; ++range) {
      const Index begin = std::max(run.global, range->global);
      const Index end = std::min(run_end, range->global + range->length);
      out.push_back({run.stored + (begin - run.global), static_cast<std::size_t>(range - ranges.begin()),
                     begin - range->global, end - begin});
    }
  }
  return out;
}

// Finds the transfers into one target shard at a time; what depends on a dim alone is found once.
class TransferFinder {
 public:
  TransferFinder(const TensorLayout& source, const TensorLayout& target, std::span<const Index> sources)
      : source_(source), sources_(sources) {
    if (source.dims.size() != target.dims.size())
      internal_error(fmt::format("a tensor of {} dims becomes one of {}", source.dims.size(), target.dims.size()));
    std::size_t pieces = 1;
    for (std::size_t d = 0; d < source.dims.size(); ++d) {
      ranges_.push_back(held_ranges(source.dims[d]));
      pieces *= ranges_.back().size();
      auto& hits = hits_.emplace_back();
      for (const DimShard& part : target.dims[d].parts) hits.push_back(hits_of(part, ranges_.back()));
    }
    if (pieces != sources.size())
      internal_error(fmt::format("{} sources were chosen for {} pieces", sources.size(), pieces));
  }

  // `parts` of the target, one per dim.
  ShardTransfers find(const std::vector<std::int32_t>& parts) {
    chosen_.assign(parts.size(), nullptr);
    out_ = {};
    visit(parts, 0, 0);
    return std::move(out_);
  }

 private:
  void visit(const std::vector<std::int32_t>& parts, std::size_t dim, std::size_t piece) {
    if (dim == parts.size()) {
      add_box(sources_[piece]);
      return;
    }
    for (const Hit& hit : hits_[dim][static_cast<std::size_t>(parts[dim])]) {
      chosen_[dim] = &hit;
      visit(parts, dim + 1, piece * ranges_[dim].size() + hit.range);
    }
  }

  void add_box(Index source_rank) {
    out_.source_ranks.push_back(source_rank);
    for (std::size_t d = 0; d < chosen_.size(); ++d) {
      const Hit& hit = *chosen_[d];
      const std::vector<Holding>& holders = ranges_[d][hit.range].holders;
      const std::int32_t part = source_.dims[d].part_of(source_rank);
      const auto holding = std::lower_bound(holders.begin(), holders.end(), part,
                                            [](const Holding& h, std::int32_t p) { return h.part < p; });
      if (holding == holders.end() || holding->part != part)
        internal_error(fmt::format("source rank {} was chosen for elements it does not hold", source_rank));
      const Index begin = holding->stored + hit.offset;
      out_.source.push_back({begin, begin + hit.length});
      out_.target.push_back({hit.target, hit.target + hit.length});
    }
  }

  const TensorLayout& source_;
  std::span<const Index> sources_;
  std::vector<std::vector<HeldRange>> ranges_;       // by dim
  std::vector<std::vector<std::vector<Hit>>> hits_;  // by dim, target part
  std::vector<const Hit*> chosen_;
  ShardTransfers out_;
};

// Where a stored interval lies in the tensor, and among the shard's elements with padding left out.
struct Place {
  Index global = 0;
  Index dense = 0;
};

// Stored positions of a shard looked up; an interval that is not within one run is a fault of the planner.
class RunIndex {
 public:
  explicit RunIndex(const DimShard& shard) : runs_(shard.runs) {
    Index dense = 0;
    for (const Run& run : runs_) {
      dense_.push_back(dense);
      dense += run.length;
    }
  }

  Place place(const Interval& stored) const {
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), stored.begin,
                                        [](Index position, const Run& run) { return position < run.stored; });
    if (after != runs_.begin()) {
      const std::size_t i = static_cast<std::size_t>(after - runs_.begin()) - 1;
      const Index offset = stored.begin - runs_[i].stored;
      if (stored.end - runs_[i].stored <= runs_[i].length) return {runs_[i].global + offset, dense_[i] + offset};
    }
    internal_error(
        fmt::format("a transfer has stored positions {}:{}, which are not within one run", stored.begin, stored.end));
  }

  Index global_of_dense(Index dense) const {
    const auto after = std::upper_bound(dense_.begin(), dense_.end(), dense);
    const std::size_t i = static_cast<std::size_t>(after - dense_.begin()) - 1;
    return runs_[i].global + (dense - dense_[i]);
  }

 private:
  const std::vector<Run>& runs_;
  std::vector<Index> dense_;
};

std::vector<std::vector<RunIndex>> index_runs(const TensorLayout& layout) {
  std::vector<std::vector<RunIndex>> out;
  for (const DimLayout& dim : layout.dims) out.emplace_back(dim.parts.begin(), dim.parts.end());
  return out;
}

}  // namespace

std::vector<Transfer> list_transfers(const TensorLayout& source, const TensorLayout& target,
                                     std::span<const Index> sources) {
  TransferFinder finder(source, target, sources);
  std::map<std::vector<std::int32_t>, ShardTransfers> known;
  std::vector<Transfer> out;
  const auto dims = static_cast<std::ptrdiff_t>(target.dims.size());
  for (Index rank = 0; rank < target.ranks; ++rank) {
    if (!target.is_present(rank)) continue;
    const std::vector<std::int32_t> parts = parts_of_rank(target, rank);
    const auto [entry, added] = known.try_emplace(parts);
    if (added) entry->second = finder.find(parts);
    const ShardTransfers& shard = entry->second;
    auto from = shard.source.begin();
    auto to = shard.target.begin();
    for (const Index source_rank : shard.source_ranks) {
      out.push_back({source_rank, rank, Box(from, from + dims), Box(to, to + dims)});
      from += dims;
      to += dims;
    }
  }
  return out;
}

void prove_coverage(const TensorLayout& source, const TensorLayout& target, std::span<const Index> sources) {
  TransferFinder finder(source, target, sources);
  const auto source_runs = index_runs(source);
  const auto target_runs = index_runs(target);
  const std::size_t dims = target.dims.size();
  std::map<std::vector<std::int32_t>, bool> proved;
  for (Index rank = 0; rank < target.ranks; ++rank) {
    if (!target.is_present(rank)) continue;
    const std::vector<std::int32_t> parts = parts_of_rank(target, rank);
    if (!proved.try_emplace(parts, true).second) continue;
    const ShardTransfers shard = finder.find(parts);

    Shape true_shape;
    for (std::size_t d = 0; d < dims; ++d)
      true_shape.push_back(target.dims[d].parts[static_cast<std::size_t>(parts[d])].true_length());
    std::vector<Interval> dense;  // the target boxes among the shard's true elements
    dense.reserve(shard.target.size());
    for (std::size_t i = 0; i < shard.source_ranks.size(); ++i) {
      const Index reader = shard.source_ranks[i];
      if (!source.is_present(reader)) internal_error(fmt::format("source rank {} is read but absent", reader));
      for (std::size_t d = 0; d < dims; ++d) {
        const Interval& from = shard.source[i * dims + d];
        const Interval& to = shard.target[i * dims + d];
        const auto source_part = static_cast<std::size_t>(source.dims[d].part_of(reader));
        const Place there = source_runs[d][source_part].place(from);
        const Place here = target_runs[d][static_cast<std::size_t>(parts[d])].place(to);
        if (there.global != here.global || from.end - from.begin != to.end - to.begin)
          internal_error(fmt::format("a transfer takes elements {} of dim {} to the place of elements {}", there.global,
                                     d, here.global));
        dense.push_back({here.dense, here.dense + (to.end - to.begin)});
      }
    }

    const Cover found = cover_each(true_shape, dense, shard.source_ranks.size());
    if (found.missing == 0 && found.twice == 0) continue;
    const std::vector<Index>& first = found.missing > 0 ? found.first_missing : found.first_twice;
    std::vector<Index> element;
    for (std::size_t d = 0; d < dims; ++d)
      element.push_back(target_runs[d][static_cast<std::size_t>(parts[d])].global_of_dense(first[d]));
    throw Error(
        Issue{ErrorCode::kCoverage, "", kNoTensor,
              fmt::format("of the {} elements of target rank {}, {} have no source and {} would be written twice; the "
                          "first is [{}]",
                          checked_product(true_shape), rank, found.missing, found.twice, fmt::join(element, ", "))});
  }
}

}  // namespace reshard::planner
