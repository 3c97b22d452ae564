#pragma once
// What every rank stores of a tensor, element by element: an independent reading of plan format sections 5, 6 and 9 for
// property tests. A shard is the explicit list of its stored positions; there is no interval here and no code of the
// layout room, only its data types. Slow and obvious on purpose.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"

namespace reshard::naive {

using layout::Index;

inline constexpr Index kPadding = -1;

/// One stored position.
struct Cell {
  Index global = kPadding;   ///< index in the dim, or kPadding
  Index copy_of = kPadding;  ///< padding only: the index that `fill: last` repeats
  bool temporary = false;    ///< padding of packed sequences

  friend bool operator==(const Cell&, const Cell&) = default;
};

using Line = std::vector<Cell>;

/// A dim cut for every tuple of coordinates.
struct CutDim {
  std::vector<Line> lines;           ///< row-major over the levels' coordinates
  std::vector<std::string> ignored;  ///< axes that fell back by `replicate`
  std::set<ErrorCode> faults;        ///< not empty: refused, for one of these reasons (`lines` is empty then)
};

CutDim cut_dim(const layout::DimCut& cut, Index length);

/// The lines by rank of a mesh given as its sizes, axes and optional `ranks`.
std::vector<Line> lines_by_rank(const CutDim& dim, const layout::DimCut& cut, const std::vector<layout::Axis>& axes,
                                const std::vector<Index>& ranks);

/// Every length up to `limit` that would be stored with these lengths (row-major over the levels).
std::vector<Index> lengths_that_fit(const layout::DimCut& cut, std::span<const Index> stored, Index limit);

}  // namespace reshard::naive
