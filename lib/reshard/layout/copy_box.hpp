#pragma once
// One rectangle that moves: where its elements lie in a source buffer, in a target buffer and in the logical tensor.
// All numbers are elements, so the same box serves a move that changes the element type.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reshard/layout/mesh.hpp"

namespace reshard::layout {

/// One dim of a box: `extent` steps, each so many elements apart in the three places.
struct CopyDim {
  Index extent = 1;
  Index source_stride = 1;
  Index target_stride = 1;
  Index logical_stride = 1;

  friend bool operator==(const CopyDim&, const CopyDim&) = default;
};

struct CopyBox {
  std::size_t source = 0;  ///< number of the source buffer
  std::size_t target = 0;  ///< number of the target buffer
  Index source_offset = 0;
  Index target_offset = 0;
  Index logical_offset = 0;  ///< row-major position in the tensor
  /// Whether this is the one copy of its elements that counts for the tensor's digest (the others go to replicas and
  /// overlaps).
  bool canonical = true;
  /// Outermost first. The last dim has stride 1 in all three places.
  std::vector<CopyDim> dims;

  Index elements() const {
    Index out = 1;
    for (const CopyDim& dim : dims) out *= dim.extent;
    return out;
  }

  friend bool operator==(const CopyBox&, const CopyBox&) = default;
};

/// The same box with the fewest dims: extents of 1 dropped, dims joined that follow each other without a gap in all
/// three places. A whole row shard of any rank becomes one dim.
CopyBox flattened(CopyBox box);

/// Row-major strides of the box itself, by dim: where its elements lie when they are packed.
std::vector<Index> packed_strides(const CopyBox& box);

}  // namespace reshard::layout
