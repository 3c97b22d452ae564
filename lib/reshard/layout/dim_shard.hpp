#pragma once
// What one rank holds of one dim: runs of the tensor's elements and padding, at stored positions.

#include <compare>
#include <optional>
#include <vector>

#include "reshard/layout/mesh.hpp"

namespace reshard::layout {

/// Global indices [global, global + length) lie at stored positions [stored, stored + length).
struct Run {
  Index global = 0;
  Index stored = 0;
  Index length = 0;

  friend auto operator<=>(const Run&, const Run&) = default;
};

/// Stored positions that hold no element of the tensor.
struct Pad {
  Index stored = 0;
  Index length = 0;
  std::optional<Index> copy_of;  ///< the global index whose value `fill: last` repeats; nothing: zero bytes
  bool temporary = false;        ///< padding of packed sequences: holds `pad_value`

  friend auto operator<=>(const Pad&, const Pad&) = default;
};

/// What one coordinate holds of one dim. Runs and pads are sorted by stored position, maximal, and together tile
/// [0, stored_length).
struct DimShard {
  std::vector<Run> runs;
  std::vector<Pad> pads;
  Index stored_length = 0;

  /// Sum of run lengths: elements of the tensor, padding left out.
  Index true_length() const;

  friend auto operator<=>(const DimShard&, const DimShard&) = default;
};

}  // namespace reshard::layout
