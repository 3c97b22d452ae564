#pragma once
// A mesh: named axes over ranks, outermost (slowest) first. The position of a coordinate is its row-major index;
// `ranks` maps positions to the rank numbers that file names carry (identity where absent). Plan format, section 3.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reshard::layout {

using Index = std::int64_t;

struct Axis {
  std::string name;
  Index size = 1;

  friend bool operator==(const Axis&, const Axis&) = default;
};

class Mesh {
 public:
  /// One rank.
  Mesh() : Mesh(std::vector<Axis>{}) {}
  /// Errors: kMeshSize (a size below 1, product beyond 2^31), kAxisDup, kRanks (no permutation of 0..size-1).
  explicit Mesh(std::vector<Axis> axes, std::vector<Index> ranks = {});

  const std::vector<Axis>& axes() const { return axes_; }
  /// Number of ranks.
  Index size() const { return size_; }
  /// Size of an axis; nothing for a name that is no axis of this mesh.
  std::optional<Index> axis_size(std::string_view name) const;
  /// Where an axis stands, from 0; axes().size() for a name that is no axis of this mesh.
  std::size_t axis_position(std::string_view name) const;
  /// Coordinate of a rank (number as in file names) on an axis; 0 on an axis this mesh does not have.
  Index coordinate(Index rank, std::string_view axis) const;
  /// All coordinates of a rank, in axes order.
  std::vector<Index> coordinates(Index rank) const;
  /// Empty where ranks are their positions.
  const std::vector<Index>& ranks() const { return ranks_; }

 private:
  /// Of a rank among all coordinates, in row-major order.
  Index position_of(Index rank) const;

  std::vector<Axis> axes_;
  std::vector<Index> ranks_;      // position -> rank
  std::vector<Index> positions_;  // rank -> position
  Index size_ = 1;
};

}  // namespace reshard::layout
