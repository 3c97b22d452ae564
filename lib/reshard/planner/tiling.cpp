#include "reshard/planner/tiling.hpp"

#include <algorithm>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"

namespace reshard::planner {
namespace {

/// A scalar is treated as a vector of one element.
layout::TensorLayout with_a_dim(layout::TensorLayout layout) {
  if (!layout.dims.empty()) return layout;
  layout.shape = {1};
  layout.dims.push_back(
      {{layout::DimShard{{{0, 0, 1}}, {}, 1}}, std::vector<std::int32_t>(static_cast<std::size_t>(layout.ranks), 0)});
  return layout;
}

/// Steps through all combinations of `sizes`, last fastest; false at the end.
bool next(std::vector<std::size_t>& at, const std::vector<std::size_t>& sizes) {
  for (std::size_t i = at.size(); i-- > 0;) {
    if (++at[i] < sizes[i]) return true;
    at[i] = 0;
  }
  return false;
}

Index stored_at(const JoinedRange& range, std::int32_t part) {
  for (const Holding& holding : range.sources)
    if (holding.part == part) return holding.stored;
  internal_error("the chosen source rank does not hold the piece it is read from");
}

}  // namespace

Index Tile::source_elements() const {
  Index out = 0;
  for (const SourcePart& part : sources) out += part.span_elements();
  return out;
}

Index Tile::target_elements() const {
  Index out = 0;
  for (const TargetPart& part : targets) out += part.elements;
  return out;
}

Tiling::Tiling(const layout::TensorLayout& source, const layout::TensorLayout& target, Index tile_elements)
    : source_(with_a_dim(source)), target_(with_a_dim(target)) {
  const std::size_t rank = source_.dims.size();
  dims_.resize(rank);
  Index pieces = 1;
  for (std::size_t d = rank; d-- > 0;) {
    const std::vector<HeldRange> held = held_ranges(source_.dims[d]);
    Dim& dim = dims_[d];
    dim.ranges = join_dim(held, target_.dims[d]);
    for (const JoinedRange& range : dim.ranges) {
      dim.starts.push_back(dim.total);
      dim.total += range.length;
    }
    dim.piece_stride = pieces;
    pieces = checked_mul(pieces, static_cast<Index>(held.size()));
    dim.logical_stride = tensor_elements_;
    tensor_elements_ = checked_mul(tensor_elements_, source_.shape[d]);
    if (dim.ranges.empty()) return;  // no element: no tile
  }
  for (Index r = 0; r < target_.ranks; ++r) {
    if (!target_.is_present(r)) continue;
    std::vector<std::int32_t> parts;
    for (const layout::DimLayout& dim : target_.dims) parts.push_back(dim.part_of(r));
    target_ranks_[std::move(parts)].push_back(r);
  }

  choose_row_dim(tile_elements);
  std::vector<std::size_t> sizes;
  for (std::size_t d = row_dim_ + 1; d < rank; ++d) sizes.push_back(dims_[d].ranges.size());
  std::vector<std::size_t> at(sizes.size(), 0);
  do {
    Inner inner{at, 0, 0};
    for (std::size_t i = 0; i < at.size(); ++i) {
      const Dim& dim = dims_[row_dim_ + 1 + i];
      inner.piece += static_cast<Index>(dim.ranges[at[i]].source_range) * dim.piece_stride;
      inner.logical += dim.ranges[at[i]].global * dim.logical_stride;
    }
    inner_.push_back(std::move(inner));
  } while (next(at, sizes));

  for (const JoinedRange& range : dims_[row_dim_].ranges) {
    first_block_.push_back(blocks_);
    blocks_ += static_cast<std::size_t>(ceil_div(range.length, rows_per_tile_));
  }
  tile_count_ = blocks_;
  for (std::size_t d = 0; d < row_dim_; ++d) tile_count_ *= static_cast<std::size_t>(dims_[d].total);
}

std::vector<TargetPart> Tiling::shards() const {
  std::vector<TargetPart> out;
  for (const auto& [parts, ranks] : target_ranks_) {
    Index elements = 1;
    for (std::size_t d = 0; d < parts.size(); ++d)
      elements *= target_.dims[d].parts[static_cast<std::size_t>(parts[d])].stored_length;
    out.push_back({ranks, 0, elements, false});
  }
  return out;
}

Index Tiling::row_cost(std::size_t row_dim) const {
  // Every distinct inner shard of both sides may be touched, on the target's side once per holder of the outer indices.
  const auto inner_elements = [&](const layout::TensorLayout& layout) {
    Index out = 1;
    for (std::size_t d = row_dim + 1; d < layout.dims.size(); ++d) {
      Index sum = 0;
      for (const layout::DimShard& part : layout.dims[d].parts) sum = checked_add(sum, part.stored_length);
      out = checked_mul(out, sum);
    }
    return out;
  };
  Index holders = 1;
  for (std::size_t d = 0; d <= row_dim; ++d) {
    std::size_t most = 1;
    for (const JoinedRange& range : dims_[d].ranges) most = std::max(most, range.targets.size());
    holders = checked_mul(holders, static_cast<Index>(most));
  }
  return checked_add(inner_elements(source_), checked_mul(holders, inner_elements(target_)));
}

void Tiling::choose_row_dim(Index tile_elements) {
  row_dim_ = 0;
  while (row_dim_ + 1 < dims_.size() && row_cost(row_dim_) > tile_elements) ++row_dim_;
  rows_per_tile_ = std::max<Index>(1, tile_elements / row_cost(row_dim_));
}

Tile Tiling::tile(std::size_t number, std::span<const Index> sources) const {
  const std::size_t rank = dims_.size();
  // Which range of every outer dim, how far into it, and the rows.
  std::vector<std::size_t> range_at(row_dim_ + 1);
  std::vector<Index> within(row_dim_ + 1, 0);
  const std::size_t block = number % blocks_;
  std::size_t outer = number / blocks_;
  for (std::size_t d = row_dim_; d-- > 0;) {
    const auto total = static_cast<std::size_t>(dims_[d].total);
    const auto index = static_cast<Index>(outer % total);
    outer /= total;
    const auto after = std::upper_bound(dims_[d].starts.begin(), dims_[d].starts.end(), index);
    range_at[d] = static_cast<std::size_t>(after - dims_[d].starts.begin()) - 1;
    within[d] = index - dims_[d].starts[range_at[d]];
  }
  const auto after = std::upper_bound(first_block_.begin(), first_block_.end(), block);
  range_at[row_dim_] = static_cast<std::size_t>(after - first_block_.begin()) - 1;
  within[row_dim_] = static_cast<Index>(block - first_block_[range_at[row_dim_]]) * rows_per_tile_;
  const JoinedRange& row_range = dims_[row_dim_].ranges[range_at[row_dim_]];
  const Index rows = std::min(rows_per_tile_, row_range.length - within[row_dim_]);

  Index outer_piece = 0;
  Index outer_logical = 0;
  for (std::size_t d = 0; d <= row_dim_; ++d) {
    const JoinedRange& range = dims_[d].ranges[range_at[d]];
    outer_piece += static_cast<Index>(range.source_range) * dims_[d].piece_stride;
    outer_logical += (range.global + within[d]) * dims_[d].logical_stride;
  }

  Tile tile;
  std::map<Index, std::size_t> source_of_rank;
  std::map<std::pair<std::vector<std::int32_t>, Index>, std::size_t> target_of_place;

  // Where one combination of inner ranges is read from.
  const auto add_source = [&](const Inner& inner, layout::CopyBox& box) {
    const Index from = sources[static_cast<std::size_t>(outer_piece + inner.piece)];
    Index source_row = 1;  // stored elements of one row
    for (std::size_t d = rank; d-- > row_dim_ + 1;) {
      const JoinedRange& range = dims_[d].ranges[inner.ranges[d - row_dim_ - 1]];
      box.dims[d - row_dim_].source_stride = source_row;
      box.source_offset += stored_at(range, source_.dims[d].part_of(from)) * source_row;
      source_row *= source_.dims[d].shard_of(from).stored_length;
    }
    box.dims[0].source_stride = source_row;
    box.logical_offset = outer_logical + inner.logical;
    const auto [source_it, new_source] = source_of_rank.try_emplace(from, tile.sources.size());
    box.source = source_it->second;
    if (!new_source) return;
    Index first = 0;
    for (std::size_t d = 0; d <= row_dim_; ++d) {
      const std::int32_t part = source_.dims[d].part_of(from);
      first = first * source_.dims[d].shard_of(from).stored_length + stored_at(dims_[d].ranges[range_at[d]], part) +
              within[d];
    }
    tile.sources.push_back({from, first * source_row, rows, source_row, 0, source_row});
  };

  for (const Inner& inner : inner_) {
    const auto range_of = [&](std::size_t d) -> const JoinedRange& {
      return dims_[d].ranges[d <= row_dim_ ? range_at[d] : inner.ranges[d - row_dim_ - 1]];
    };
    layout::CopyBox box;
    box.dims.resize(rank - row_dim_);
    for (std::size_t d = row_dim_; d < rank; ++d)
      box.dims[d - row_dim_] = {d == row_dim_ ? rows : range_of(d).length, 0, 0, dims_[d].logical_stride};
    std::size_t padded_dim = 0;
    while (padded_dim < rank && !range_of(padded_dim).is_padding()) ++padded_dim;
    if (padded_dim == rank) add_source(inner, box);

    // Every combination of target holders receives it.
    std::vector<std::size_t> holders;
    for (std::size_t d = 0; d < rank; ++d) holders.push_back(range_of(d).targets.size());
    std::vector<std::size_t> at(rank, 0);
    do {
      std::vector<std::int32_t> parts(rank);
      box.canonical = true;
      for (std::size_t d = 0; d < rank; ++d) {
        const TargetHolding& holding = range_of(d).targets[at[d]];
        parts[d] = holding.part;
        box.canonical = box.canonical && holding.canonical;
      }
      const auto ranks = target_ranks_.find(parts);
      if (ranks == target_ranks_.end()) continue;

      const auto stored_length = [&](std::size_t d) {
        return target_.dims[d].parts[static_cast<std::size_t>(parts[d])].stored_length;
      };
      Index target_stride = 1;
      box.target_offset = 0;
      for (std::size_t d = rank; d-- > row_dim_ + 1;) {
        box.dims[d - row_dim_].target_stride = target_stride;
        box.target_offset += range_of(d).targets[at[d]].stored * target_stride;
        target_stride *= stored_length(d);
      }
      box.dims[0].target_stride = target_stride;
      Index first = 0;
      for (std::size_t d = 0; d <= row_dim_; ++d)
        first = first * stored_length(d) + range_of(d).targets[at[d]].stored + within[d];
      const auto [target_it, new_target] = target_of_place.try_emplace({std::move(parts), first}, tile.targets.size());
      if (new_target) tile.targets.push_back({ranks->second, first * target_stride, rows * target_stride, true});
      box.target = target_it->second;
      if (padded_dim == rank) {
        tile.copies.push_back(box);
      } else {
        tile.pads.push_back({padded_dim, box});
      }
    } while (next(at, holders));
  }

  std::vector<Index> filled(tile.targets.size(), 0);
  for (const layout::CopyBox& box : tile.copies) filled[box.target] += box.elements();
  for (std::size_t i = 0; i < tile.targets.size(); ++i)
    tile.targets[i].has_padding = filled[i] < tile.targets[i].elements;
  return tile;
}

}  // namespace reshard::planner
