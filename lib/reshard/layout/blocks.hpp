#pragma once
// Companions of a weight that have one entry per block of k elements: block scales, packed words (plan format section
// 8, layouts reference section 10). An interval [a, b) of the dim is entries [a/k, ceil(b/k)); it must hold every block
// whole.

#include <optional>
#include <span>
#include <vector>

#include "reshard/layout/dim_shard.hpp"

namespace reshard::layout {

class BlockNumbering {
 public:
  /// Blocks of `divisor` elements of a dim of `length`. With `segments` (they sum to `length`) numbering restarts in
  /// each: 200 = 100 + 100 with divisor 64 has blocks of 64, 36, 64, 36; without: 64, 64, 64, 8.
  BlockNumbering(Index length, Index divisor, std::span<const Index> segments = {});

  /// Number of blocks of the whole dim.
  Index count() const { return first_blocks_.back(); }

  /// Number of the block that holds an element.
  Index block_of(Index element) const;

  /// A boundary of the shard's runs that lies inside a block; nothing where every block is whole.
  std::optional<Index> split_at(const DimShard& elements) const;

  /// The same shard in blocks; split_at found nothing. Blocks that hold padding only are padding.
  DimShard to_blocks(const DimShard& elements) const;

 private:
  std::size_t segment_of(Index element) const;

  Index divisor_;
  std::vector<Index> starts_;        // of the segments, and the length
  std::vector<Index> first_blocks_;  // of the segments, and the count
};

}  // namespace reshard::layout
