#include "reshard/layout/tensor_layout.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <utility>

#include "reshard/base/error.hpp"

namespace reshard::layout {

Shape TensorLayout::stored_shape(Index rank) const {
  Shape out;
  out.reserve(dims.size());
  for (const DimLayout& dim : dims) {
    const std::int32_t part = dim.part_of(rank);
    out.push_back(dim.parts[static_cast<std::size_t>(part)].stored_length);
  }
  return out;
}

std::size_t tuple_of_rank(const DimCut& cut, const Mesh& mesh, Index rank) {
  std::size_t out = 0;
  for (const Level& level : cut.levels) {
    const Index c = level.axis_size == 1 ? 0 : mesh.coordinate(rank, level.axis);
    out = out * static_cast<std::size_t>(level.axis_size) + static_cast<std::size_t>(c);
  }
  return out;
}

DimLayout lay_out_dim(const DimCut& cut, Index length, const Mesh& mesh) {
  for (const Level& level : cut.levels)
    if (level.axis_size != 1 && mesh.axis_size(level.axis) != level.axis_size)
      internal_error(
          fmt::format("axis '{}' is bound to size {}, which is not that of its mesh", level.axis, level.axis_size));
  const std::vector<DimShard> shards = cut_dim_everywhere(cut, length);

  // Parts by value, found through the coordinates of the levels: each tuple of coordinates is compared once.
  DimLayout out;
  out.part_of_rank.reserve(static_cast<std::size_t>(mesh.size()));
  std::map<DimShard, std::int32_t> known;
  std::vector<std::int32_t> part_of_tuple(shards.size(), -1);
  for (Index rank = 0; rank < mesh.size(); ++rank) {
    const std::size_t tuple = tuple_of_rank(cut, mesh, rank);
    std::int32_t& part = part_of_tuple[tuple];
    if (part < 0) {
      const auto [entry, added] = known.try_emplace(shards[tuple], static_cast<std::int32_t>(out.parts.size()));
      if (added) out.parts.push_back(shards[tuple]);
      part = entry->second;
    }
    out.part_of_rank.push_back(part);
  }
  return out;
}

TensorLayout lay_out(const Shape& shape, const TensorCut& cut, const Mesh& mesh) {
  if (cut.dims.size() != shape.size())
    internal_error(fmt::format("a cut of {} dims meets a tensor of {}", cut.dims.size(), shape.size()));
  TensorLayout out;
  out.shape = shape;
  out.ranks = mesh.size();
  out.present = cut.present;
  std::vector<Issue> issues;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    DimCut resolved = cut.dims[d];
    if (resolved.size && *resolved.size != shape[d]) {
      issues.push_back(
          {ErrorCode::kShape, "", kNoTensor,
           fmt::format("dim {}: the plan gives size {}, but its length is {}", d, *resolved.size, shape[d])});
      continue;
    }
    if (auto refused = resolve_fallbacks(resolved, shape[d], out.fallen_back)) {
      issues.push_back({refused->code, "", kNoTensor, fmt::format("dim {}: {}", d, refused->message)});
      continue;
    }
    out.dims.push_back(lay_out_dim(resolved, shape[d], mesh));
  }
  if (!issues.empty()) throw Error(std::move(issues));
  return out;
}

}  // namespace reshard::layout
