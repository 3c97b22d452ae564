#include "reshard/planner/work.hpp"

#include <algorithm>
#include <limits>

namespace reshard::planner {

TileList::TileList(std::span<const WorkTensor> tensors, int lanes, const Selection& selected)
    : starts_(tensors.size() + 1, 0), lanes_(static_cast<std::size_t>(lanes)) {
  for (std::size_t t = 0; t < tensors.size(); ++t)
    starts_[t + 1] = starts_[t] + (selected.empty() || selected[t] ? tensors[t].tiling->size() : 0);
}

TileId TileList::operator[](std::size_t i) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), i);
  const auto tensor = static_cast<std::size_t>(after - starts_.begin()) - 1;
  // The first tiles % lanes lanes are one longer than the others.
  const std::size_t turn = i - starts_[tensor];
  const std::size_t tiles = starts_[tensor + 1] - starts_[tensor];
  const std::size_t lane = turn % lanes_;
  return {tensor, lane * (tiles / lanes_) + std::min(lane, tiles % lanes_) + turn / lanes_};
}

std::vector<Columns> wanted_columns(const Tile& tile, const std::vector<bool>& wanted) {
  std::vector<Columns> out(tile.sources.size());
  for (const layout::CopyBox& box : tile.copies) {
    if (!wanted[box.target]) continue;
    Index end = box.source_offset + 1;
    for (std::size_t d = 1; d < box.dims.size(); ++d) end += (box.dims[d].extent - 1) * box.dims[d].source_stride;
    Columns& columns = out[box.source];
    columns.first = std::min(columns.first, box.source_offset);
    columns.end = std::max(columns.end, end);
  }
  return out;
}

Tile restricted(const Tile& tile, const std::vector<bool>& wanted) {
  constexpr std::size_t kGone = std::numeric_limits<std::size_t>::max();
  Tile out;
  std::vector<std::size_t> target_number(tile.targets.size(), kGone);
  for (std::size_t t = 0; t < tile.targets.size(); ++t) {
    if (!wanted[t]) continue;
    target_number[t] = out.targets.size();
    out.targets.push_back(tile.targets[t]);
  }
  const std::vector<Columns> columns = wanted_columns(tile, wanted);
  std::vector<std::size_t> source_number(tile.sources.size(), kGone);
  for (std::size_t s = 0; s < tile.sources.size(); ++s) {
    if (!columns[s].any()) continue;
    source_number[s] = out.sources.size();
    SourcePart part = tile.sources[s];
    part.column = columns[s].first;
    part.columns = columns[s].end - columns[s].first;
    out.sources.push_back(part);
  }
  for (const layout::CopyBox& box : tile.copies) {
    if (!wanted[box.target]) continue;
    out.copies.push_back(box);
    out.copies.back().source = source_number[box.source];
    out.copies.back().target = target_number[box.target];
  }
  for (const PadBox& pad : tile.pads) {
    if (!wanted[pad.box.target]) continue;
    out.pads.push_back(pad);
    out.pads.back().box.target = target_number[pad.box.target];
  }
  return out;
}

}  // namespace reshard::planner
