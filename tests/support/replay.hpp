#pragma once
// Tiles carried out element by element on numbers in place of files, to be compared with the naive oracle.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshard/planner/readers.hpp"
#include "reshard/planner/tiling.hpp"
#include "support/naive_oracle.hpp"
#include "support/random_layouts.hpp"

namespace reshard::replay {

using layout::Index;

/// What a stored element holds: 1 + its index in the tensor, or one of these.
inline constexpr Index kNothing = 0;      ///< never written: zero padding, if anything
inline constexpr Index kConstant = -100;  ///< minus the dim whose temporary padding it is

/// A case that both sides can cut, with the layouts of the library and the lines of the oracle.
struct Pair {
  layout::TensorLayout source;
  layout::TensorLayout target;
  std::vector<std::vector<naive::Line>> source_lines;  ///< by dim, rank
  std::vector<std::vector<naive::Line>> target_lines;
  std::vector<Index> sources;  ///< of choose_sources
};

/// Nothing where the case is one that is refused.
inline std::optional<Pair> pair_of(const random_layouts::Case& c) {
  Pair out;
  for (const auto& [side, lines] : {std::pair(&c.source, &out.source_lines), std::pair(&c.target, &out.target_lines)})
    for (std::size_t d = 0; d < c.shape.size(); ++d) {
      const naive::CutDim dim = naive::cut_dim(side->cut.dims[d], c.shape[d]);
      if (!dim.faults.empty()) return std::nullopt;
      lines->push_back(naive::lines_by_rank(dim, side->cut.dims[d], side->axes, side->ranks));
    }
  out.source = layout::lay_out(c.shape, c.source.cut, layout::Mesh(c.source.axes, c.source.ranks));
  out.target = layout::lay_out(c.shape, c.target.cut, layout::Mesh(c.target.axes, c.target.ranks));
  const planner::TensorToRead to_read{&out.source, 1};
  out.sources = planner::choose_sources({&to_read, 1}).front();
  return out;
}

struct Drawn {
  random_layouts::Case layouts;
  Pair pair;
};

/// A random case that both sides can cut, which shows feature `number` of features(), counted round and round.
inline Drawn draw_pair(random_layouts::Random& random, std::size_t number) {
  const std::vector<std::string>& wishes = random_layouts::features();
  for (;;) {
    random_layouts::Case c = random_layouts::draw(random, wishes[number % wishes.size()]);
    if (std::optional<Pair> pair = pair_of(c)) return {std::move(c), std::move(*pair)};
  }
}

/// What a rank holds by the oracle's lines; as a source its padding is kNothing.
inline std::vector<Index> shard(const std::vector<std::vector<naive::Line>>& lines, const Shape& shape,
                                std::size_t rank, bool is_target) {
  std::vector<Index> out;
  std::vector<std::size_t> at(lines.size(), 0);
  for (const auto& dim : lines)
    if (dim[rank].empty()) return out;
  for (bool more = true; more;) {
    Index value = 0;
    Index constant = kNothing;
    bool zero = false;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const naive::Cell& cell = lines[d][rank][at[d]];
      const Index from = cell.global != naive::kPadding || !is_target ? cell.global : cell.copy_of;
      if (is_target && cell.temporary && constant == kNothing) constant = kConstant - static_cast<Index>(d);
      zero = zero || (from == naive::kPadding && !(is_target && cell.temporary));
      value = value * shape[d] + std::max(from, Index{0});
    }
    out.push_back(zero ? kNothing : constant != kNothing ? constant : value + 1);
    more = false;
    for (std::size_t d = at.size(); d-- > 0 && !more;) {
      more = ++at[d] < lines[d][rank].size();
      if (!more) at[d] = 0;
    }
  }
  return out;
}

/// Calls visit(source, target, logical) with the element offsets of a box.
inline void for_each_element(const layout::CopyBox& box, const std::function<void(Index, Index, Index)>& visit) {
  std::vector<Index> at(box.dims.size(), 0);
  for (bool more = box.elements() > 0; more;) {
    Index source = box.source_offset;
    Index target = box.target_offset;
    Index logical = box.logical_offset;
    for (std::size_t d = 0; d < at.size(); ++d) {
      source += at[d] * box.dims[d].source_stride;
      target += at[d] * box.dims[d].target_stride;
      logical += at[d] * box.dims[d].logical_stride;
    }
    visit(source, target, logical);
    more = false;
    for (std::size_t d = at.size(); d-- > 0 && !more;) {
      more = ++at[d] < box.dims[d].extent;
      if (!more) at[d] = 0;
    }
  }
}

/// The state of a replay. `fault` gets the first thing that is wrong.
class Replay {
 public:
  Replay(const Pair& pair, const Shape& shape) {
    for (Index rank = 0; rank < pair.source.ranks; ++rank)
      sources_.push_back(shard(pair.source_lines, shape, static_cast<std::size_t>(rank), false));
    for (Index rank = 0; rank < pair.target.ranks; ++rank) {
      expected_.push_back(shard(pair.target_lines, shape, static_cast<std::size_t>(rank), true));
      targets_.emplace_back(expected_.back().size(), kNothing);
      pieces_.emplace_back(expected_.back().size(), 0);
    }
    Index elements = 1;
    for (const Index length : shape) elements *= length;
    counted_.assign(static_cast<std::size_t>(elements), 0);
  }

  void carry_out(const planner::Tile& tile) {
    for (const planner::SourcePart& part : tile.sources) {
      const Index last = part.first + part.column + part.span_elements();
      if (part.first < 0 || last > static_cast<Index>(sources_[static_cast<std::size_t>(part.rank)].size()))
        note("a source part leaves its shard");
    }
    std::vector<Index> filled(tile.targets.size(), 0);
    for (const layout::CopyBox& box : tile.copies) {
      const planner::SourcePart& source = tile.sources[box.source];
      filled[box.target] += box.elements();
      for_each_element(box, [&](Index from, Index to, Index logical) {
        if (from < source.column || from >= source.column + source.span_elements())
          return note("a copy reads outside of its source part");
        const Index value =
            sources_[static_cast<std::size_t>(source.rank)][static_cast<std::size_t>(source.first + from)];
        if (value != logical + 1) note("a copy's place in the tensor is wrong");
        if (box.canonical) ++counted_[static_cast<std::size_t>(logical)];
        put(tile.targets[box.target], to, value);
      });
    }
    for (const planner::PadBox& pad : tile.pads)
      for_each_element(pad.box, [&](Index, Index to, Index) {
        put(tile.targets[pad.box.target], to, kConstant - static_cast<Index>(pad.dim));
      });
    for (std::size_t t = 0; t < tile.targets.size(); ++t) {
      const planner::TargetPart& part = tile.targets[t];
      if (part.has_padding != (filled[t] < part.elements)) note("has_padding is wrong");
      for (const Index rank : part.ranks)
        for (Index i = part.first; i < part.first + part.elements; ++i)
          if (pieces_[static_cast<std::size_t>(rank)].at(static_cast<std::size_t>(i))++ != 0)
            note("two tiles write one stored element");
    }
  }

  /// Empty where every element arrived once and counted once.
  std::string finished() {
    if (targets_ != expected_) note("what the targets hold is not what the oracle counts");
    for (const int count : counted_)
      if (count != 1) note("an element does not count exactly once for the digest");
    return fault_;
  }

 private:
  void put(const planner::TargetPart& part, Index to, Index value) {
    if (to < 0 || to >= part.elements) return note("a copy writes outside of its target part");
    for (const Index rank : part.ranks) {
      Index& place = targets_[static_cast<std::size_t>(rank)].at(static_cast<std::size_t>(part.first + to));
      if (place != kNothing) note("an element is written twice");
      place = value;
    }
  }
  void note(const char* what) {
    if (fault_.empty()) fault_ = what;
  }

  std::vector<std::vector<Index>> sources_;  // by rank
  std::vector<std::vector<Index>> expected_;
  std::vector<std::vector<Index>> targets_;
  std::vector<std::vector<int>> pieces_;  // by target rank: how many target parts hold a stored element
  std::vector<int> counted_;              // by logical element
  std::string fault_;
};

}  // namespace reshard::replay
