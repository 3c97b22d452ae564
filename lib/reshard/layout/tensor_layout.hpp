#pragma once
// One tensor on one side: its true shape and what every rank stores of it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"

namespace reshard::layout {

/// How one side cuts a tensor: one DimCut per dim, axis sizes bound to `mesh`.
struct TensorCut {
  std::vector<DimCut> dims;
  /// The ranks that have the tensor at all; empty: every rank.
  std::vector<bool> present;

  friend bool operator==(const TensorCut&, const TensorCut&) = default;
};

/// The distinct parts of one dim, and which one each rank holds. Parts that are equal by value are one part, so two
/// ranks hold equal shards exactly if they hold the same part of every dim.
struct DimLayout {
  std::vector<DimShard> parts;             ///< in order of the lowest rank that holds them
  std::vector<std::int32_t> part_of_rank;  ///< by rank number

  std::int32_t part_of(Index rank) const { return part_of_rank[static_cast<std::size_t>(rank)]; }
  const DimShard& shard_of(Index rank) const { return parts[static_cast<std::size_t>(part_of(rank))]; }

  friend bool operator==(const DimLayout&, const DimLayout&) = default;
};

struct TensorLayout {
  Shape shape;                  ///< true, global
  std::vector<DimLayout> dims;  ///< one per dim; empty for a scalar
  Index ranks = 1;              ///< number of ranks of the side
  std::vector<bool> present;    ///< by rank; empty: every rank
  /// Axes that Fallback::kReplicate ignored on this tensor.
  std::vector<std::string> fallen_back;

  bool is_present(Index rank) const { return present.empty() || present[static_cast<std::size_t>(rank)]; }
  Shape stored_shape(Index rank) const;

  friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};

/// Row-major index of a rank's coordinates on the levels of a cut: its place in cut_dim_everywhere and stored_lengths.
std::size_t tuple_of_rank(const DimCut& cut, const Mesh& mesh, Index rank);

/// One dim over the ranks of `mesh`. The cut has no fallback left to decide (resolve_fallbacks). Errors: those of
/// cut_dim.
DimLayout lay_out_dim(const DimCut& cut, Index length, const Mesh& mesh);

/// Cuts a tensor of true `shape` over the ranks of `mesh`. Applies `fallback: replicate`: an axis that asks for it and
/// cannot cut some dim is ignored on every dim. cut.dims.size() == shape.size(). Cost O(parts x runs + ranks x dims).
/// Errors (of all dims): those of cut_dim, with "dim D" in the message. kDimRange never: the caller has normalised the
/// dims.
TensorLayout lay_out(const Shape& shape, const TensorCut& cut, const Mesh& mesh);

/// The true shape behind the shards a source stores (`stored` by rank, absent ranks are skipped), by the rules of plan
/// format section 5: from the stored lengths where one length fits; else `size`, the sum of `segments`, `pad_rows`,
/// `recorded`. Errors: kShape (ranks imply different shapes, or no length fits), kPad (several lengths fit and nothing
/// tells), kSegmentSum. kMissing (a coordinate that no rank stores leaves the length open). An empty entry of `stored`
/// with `present` false is an absent rank.
Shape infer_shape(const TensorCut& cut, const Mesh& mesh, std::span<const Shape> stored,
                  const std::optional<Shape>& recorded);

}  // namespace reshard::layout
