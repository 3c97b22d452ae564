#pragma once
// True lengths of a dim that may have been stored as its shards are: a superset, found by working backwards through the
// levels, of which infer_length probes every one.

#include <compare>
#include <optional>
#include <span>
#include <vector>

#include "reshard/layout/cut.hpp"

namespace reshard::layout {

/// Stored length of a rank that does not have the tensor.
inline constexpr Index kAbsent = -1;

/// first, first + step, ..., last: lengths that may fit.
struct Progression {
  Index first = 0;
  Index last = 0;
  Index step = 1;

  friend auto operator<=>(const Progression&, const Progression&) = default;
};

struct CandidateLengths {
  std::optional<std::vector<Progression>> lengths;  ///< nothing: any length
  bool padding_exceeds = false;                     ///< some padding leaves no element
  bool open = false;                                ///< a coordinate without a shard leaves the length open
};

/// `by_tuple`: stored lengths, row-major over the levels; kAbsent where no rank tells. Errors: kOverflow.
CandidateLengths candidate_lengths(const DimCut& cut, std::span<const Index> by_tuple);

}  // namespace reshard::layout
