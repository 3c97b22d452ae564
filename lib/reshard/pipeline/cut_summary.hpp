#pragma once
// Which axes of a mesh cut which dim of a tensor, on both sides, and what else a cut by equal axes changes.

#include <cstddef>
#include <optional>
#include <vector>

#include "reshard/layout/tensor_layout.hpp"
#include "reshard/pipeline/mesh_walk.hpp"

namespace reshard::pipeline {

/// What differs between the parts of a dim that equal axes cut on both sides; of several the first.
enum class PartsChange {
  kNone,     ///< also where the axes differ: what they say is enough
  kPieces,   ///< the most runs of a part
  kLengths,  ///< elements of a part
  kOrder,    ///< which elements a part holds, or where
  kPadding,  ///< only how much there is, where, or what it repeats
};

/// The axes along which ranks hold different parts of a dim, on either side. Without a dim: the axes along which some
/// ranks have the tensor and others do not.
struct CutSummary {
  std::optional<std::size_t> dim;
  std::vector<layout::Axis> source;
  std::vector<layout::Axis> target;
  PartsChange change = PartsChange::kNone;
  std::size_t source_pieces = 0;  ///< where these change: the most runs of a part
  std::size_t target_pieces = 0;

  friend bool operator==(const CutSummary&, const CutSummary&) = default;
};

/// Presence first, then dims that some axis cuts on some side. `source` and `target` are of one shape.
std::vector<CutSummary> cuts_of(const layout::TensorLayout& source, const MeshWalk& source_walk,
                                const layout::TensorLayout& target, const MeshWalk& target_walk);

}  // namespace reshard::pipeline
