#include "reshard/layout/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"

namespace reshard::layout {
namespace {

constexpr Index kMaxRanks = Index{1} << 31;

Error refusal(ErrorCode code, std::string message) {
  return Error(Issue{code, "", kNoTensor, std::move(message)});
}

}  // namespace

Mesh::Mesh(std::vector<Axis> axes, std::vector<Index> ranks) : axes_(std::move(axes)), ranks_(std::move(ranks)) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    if (axis.size < 1)
      throw refusal(ErrorCode::kMeshSize,
                    fmt::format("axis '{}' has size {}, expected 1 or more", axis.name, axis.size));
    for (std::size_t j = 0; j < i; ++j)
      if (axes_[j].name == axis.name)
        throw refusal(ErrorCode::kAxisDup, fmt::format("axis '{}' stands twice in one mesh", axis.name));
    if (axis.size > kMaxRanks / size_)
      throw refusal(ErrorCode::kMeshSize, fmt::format("the product of the axis sizes is beyond {}", kMaxRanks));
    size_ *= axis.size;
  }
  if (ranks_.empty()) return;
  if (static_cast<Index>(ranks_.size()) != size_)
    throw refusal(ErrorCode::kRanks,
                  fmt::format("'ranks' has {} entries, the mesh has {} ranks", ranks_.size(), size_));
  positions_.assign(ranks_.size(), -1);
  for (std::size_t position = 0; position < ranks_.size(); ++position) {
    const Index rank = ranks_[position];
    if (rank < 0 || rank >= size_)
      throw refusal(ErrorCode::kRanks, fmt::format("'ranks' holds {}, expected 0 to {}", rank, size_ - 1));
    Index& slot = positions_[static_cast<std::size_t>(rank)];
    if (slot >= 0) throw refusal(ErrorCode::kRanks, fmt::format("'ranks' holds {} twice", rank));
    slot = static_cast<Index>(position);
  }
}

std::optional<Index> Mesh::axis_size(std::string_view name) const {
  for (const Axis& axis : axes_)
    if (axis.name == name) return axis.size;
  return std::nullopt;
}

std::size_t Mesh::axis_position(std::string_view name) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const Axis& axis) { return axis.name == name; });
  return static_cast<std::size_t>(found - axes_.begin());
}

Index Mesh::position_of(Index rank) const {
  return positions_.empty() ? rank : positions_[static_cast<std::size_t>(rank)];
}

Index Mesh::coordinate(Index rank, std::string_view axis) const {
  Index position = position_of(rank);
  for (std::size_t i = axes_.size(); i-- > 0;) {
    if (axes_[i].name == axis) return position % axes_[i].size;
    position /= axes_[i].size;
  }
  return 0;
}

std::vector<Index> Mesh::coordinates(Index rank) const {
  Index position = position_of(rank);
  std::vector<Index> out(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    out[i] = position % axes_[i].size;
    position /= axes_[i].size;
  }
  return out;
}

}  // namespace reshard::layout
