#pragma once
// Numbered tensors (layers, experts) on the coordinates of an axis: which coordinate has number k, and how live models,
// which count from 0 on every coordinate, number it there (plan format section 4, `owner`; layouts reference section
// 1).

#include <string>
#include <utility>
#include <vector>

#include "reshard/layout/mesh.hpp"

namespace reshard::layout {

/// A number, the coordinate that has it, and its number among those of that coordinate.
struct OwnedNumber {
  Index global = 0;
  Index coordinate = 0;
  Index local = 0;

  friend bool operator==(const OwnedNumber&, const OwnedNumber&) = default;
};

class Ownership {
 public:
  /// Numbers 0 .. count-1 over the `size` coordinates of `axis` (named in messages): equal shares, or as many per
  /// coordinate as `split` says. Over one coordinate any split is that coordinate's. Errors: kOwner (count below 1 or
  /// not a multiple of the size, wrong number of shares, a negative share, shares that do not sum to count).
  Ownership(std::string axis, Index size, Index count, const std::vector<Index>& split = {});

  /// Errors: kOwner (no number below count).
  OwnedNumber locate(Index global) const;

  /// The tensor that coordinate calls number `local`. Errors: kOwner (the coordinate has fewer).
  OwnedNumber locate_local(Index coordinate, Index local) const;

  /// The first number of a coordinate, and how many it has.
  std::pair<Index, Index> numbers_of(Index coordinate) const;

 private:
  std::string axis_;
  std::vector<Index> first_;  // number of each coordinate, and the count
};

}  // namespace reshard::layout
