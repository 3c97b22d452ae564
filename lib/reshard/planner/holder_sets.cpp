#include "reshard/planner/holder_sets.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/planner/held.hpp"

namespace reshard::planner {

HolderSets::HolderSets(const layout::TensorLayout& layout) {
  for (std::size_t d = 0; d < layout.dims.size(); ++d) dims_.push_back(dim_of(layout.dims[d], layout.shape[d]));
}

HolderSets::Dim HolderSets::dim_of(const layout::DimLayout& dim, Index length) {
  Dim out{length, std::vector<Part>(dim.parts.size()), dim.part_of_rank};
  std::map<std::vector<std::int32_t>, std::int32_t> numbers;  // by the parts that hold a set
  for (const HeldRange& range : held_ranges(dim)) {
    std::vector<std::int32_t> holders;
    for (const Holding& holding : range.holders) holders.push_back(holding.part);
    const std::int32_t set =
        numbers.try_emplace(std::move(holders), static_cast<std::int32_t>(numbers.size())).first->second;
    for (const Holding& holding : range.holders) {
      Part& part = out.parts[static_cast<std::size_t>(holding.part)];
      part.runs.push_back({{range.global, holding.stored, range.length}, static_cast<std::size_t>(set)});
      part.sets.push_back(set);
    }
  }
  for (std::size_t p = 0; p < out.parts.size(); ++p) {
    Part& part = out.parts[p];
    part.stored_length = dim.parts[p].stored_length;
    std::sort(part.runs.begin(), part.runs.end(),
              [](const SetRun& a, const SetRun& b) { return a.run.stored < b.run.stored; });
    std::sort(part.sets.begin(), part.sets.end());
    part.sets.erase(std::unique(part.sets.begin(), part.sets.end()), part.sets.end());
    for (SetRun& run : part.runs)
      run.set = static_cast<std::size_t>(
          std::lower_bound(part.sets.begin(), part.sets.end(), static_cast<std::int32_t>(run.set)) - part.sets.begin());
  }
  return out;
}

std::vector<HolderSets::Set> HolderSets::sets_of(Index rank) const {
  std::vector<Set> out = {{}};
  for (const Dim& dim : dims_) {
    const Part& part = dim.parts[static_cast<std::size_t>(dim.part_of_rank[static_cast<std::size_t>(rank)])];
    std::vector<Set> longer;
    for (const Set& set : out)
      for (const std::int32_t number : part.sets) {
        longer.push_back(set);
        longer.back().push_back(number);
      }
    out = std::move(longer);
  }
  return out;
}

/// The dims of a shard as bytes: the bytes of an element are one dim more, the innermost.
class HolderSets::Walk {
 public:
  Walk(const std::vector<Dim>& dims, Index rank, std::int64_t element_bytes)
      : element_({{{{0, 0, element_bytes}, 0}}, {0}, element_bytes}) {
    for (const Dim& dim : dims) {
      parts_.push_back(&dim.parts[static_cast<std::size_t>(dim.part_of_rank[static_cast<std::size_t>(rank)])]);
      logical_strides_.push_back(dim.length);
    }
    parts_.push_back(&element_);
    logical_strides_.push_back(element_bytes);
    // Lengths become the bytes of one step.
    Index stored = 1;
    Index logical = 1;
    stored_strides_.resize(parts_.size());
    for (std::size_t d = parts_.size(); d-- > 0;) {
      stored_strides_[d] = std::exchange(stored, checked_mul(stored, parts_[d]->stored_length));
      logical = checked_mul(std::exchange(logical_strides_[d], logical), logical);
    }
  }

  void visit(Index first, Index bytes, const Visit& visit) const {
    const Index end = first + bytes;
    for (Index at = first; at < end;) {
      // The outermost dim of which whole steps lie here: at most two slabs for every dim.
      std::size_t d = parts_.size() - 1;
      while (d > 0 && at % stored_strides_[d - 1] == 0 && end - at >= stored_strides_[d - 1]) --d;
      const Index steps = std::min((end - at) / stored_strides_[d], parts_[d]->stored_length - index_at(d, at));
      visit_slab(d, at, steps, at - first, visit);
      at += steps * stored_strides_[d];
    }
  }

 private:
  Index index_at(std::size_t d, Index at) const { return at / stored_strides_[d] % parts_[d]->stored_length; }

  /// `steps` of dim `d` from stored byte `at` on, which lies `source` bytes into the piece.
  void visit_slab(std::size_t d, Index at, Index steps, Index source, const Visit& visit) const {
    Index logical = 0;
    std::size_t set = 0;
    for (std::size_t k = 0; k < d; ++k) {
      const Index index = index_at(k, at);
      const std::vector<SetRun>& runs = parts_[k]->runs;
      const auto after = std::upper_bound(runs.begin(), runs.end(), index,
                                          [](Index i, const SetRun& run) { return i < run.run.stored; });
      if (after == runs.begin()) return;
      const SetRun& run = *(after - 1);
      if (index >= run.run.stored + run.run.length) return;
      logical += (run.run.global + index - run.run.stored) * logical_strides_[k];
      set = set * parts_[k]->sets.size() + run.set;
    }

    // Every combination of runs of the other dims.
    const Index row = index_at(d, at);
    const std::vector<SetRun> rows = clipped(parts_[d]->runs, row, row + steps);
    if (rows.empty()) return;
    const auto run_of = [&](std::size_t k, std::size_t i) -> const SetRun& {
      return k == d ? rows[i] : parts_[k]->runs[i];
    };
    std::vector<std::size_t> count{rows.size()};
    for (std::size_t k = d + 1; k < parts_.size(); ++k) count.push_back(parts_[k]->runs.size());
    if (std::find(count.begin(), count.end(), std::size_t{0}) != count.end()) return;
    std::vector<std::size_t> chosen(count.size(), 0);
    while (true) {
      layout::CopyBox box;
      box.source_offset = source;
      box.logical_offset = logical;
      std::size_t box_set = set;
      for (std::size_t k = d; k < parts_.size(); ++k) {
        const SetRun& run = run_of(k, chosen[k - d]);
        box.source_offset += (run.run.stored - (k == d ? row : 0)) * stored_strides_[k];
        box.logical_offset += run.run.global * logical_strides_[k];
        box.dims.push_back({run.run.length, stored_strides_[k], stored_strides_[k], logical_strides_[k]});
        box_set = box_set * parts_[k]->sets.size() + run.set;
      }
      visit(layout::flattened(std::move(box)), box_set);
      std::size_t k = count.size();
      while (k > 0 && ++chosen[k - 1] == count[k - 1]) chosen[--k] = 0;
      if (k == 0) return;
    }
  }

  /// The runs within stored positions [begin, end), cut to them.
  static std::vector<SetRun> clipped(const std::vector<SetRun>& runs, Index begin, Index end) {
    std::vector<SetRun> out;
    auto run = std::partition_point(runs.begin(), runs.end(),
                                    [&](const SetRun& r) { return r.run.stored + r.run.length <= begin; });
    for (; run != runs.end() && run->run.stored < end; ++run) {
      const Index from = std::max(begin, run->run.stored);
      const Index to = std::min(end, run->run.stored + run->run.length);
      out.push_back({{run->run.global + from - run->run.stored, from, to - from}, run->set});
    }
    return out;
  }

  Part element_;
  std::vector<const Part*> parts_;  // by dim, then the bytes of an element
  std::vector<Index> stored_strides_;
  std::vector<Index> logical_strides_;
};

void HolderSets::visit_boxes(Index rank, std::int64_t element_bytes, Index first, Index bytes,
                             const Visit& visit) const {
  Walk(dims_, rank, element_bytes).visit(first, bytes, visit);
}

}  // namespace reshard::planner
