#pragma once
// The unit of work. A tile is a slab of a tensor: fixed indices of its outer dims, a range of one dim (the row dim),
// and all of its inner dims. It touches one contiguous piece of every source shard that it needs and one contiguous
// piece of every target shard that it feeds, so reading and writing it are a few large calls, whatever the cuts of the
// inner dims are.
//
//   [64, 8] from TP 2 on dim 1 to TP 4 on dim 0, row dim 0:
//   tile rows 16..24   reads rows 16..24 of both source shards [64, 4], writes rows 0..8 of target shard 1 [16, 8]
//
// Tiles of a tensor are numbered row-major; they are disjoint and together hold every target element once (padding that
// repeats a row is fed by the tile of that row; temporary padding of packed sequences is filled by tiles as well, of
// which some have nothing else). A Tiling belongs to a layout pair and is shared by all tensors that have it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "reshard/layout/copy_box.hpp"
#include "reshard/layout/tensor_layout.hpp"
#include "reshard/planner/joined.hpp"

namespace reshard::planner {

/// A piece of one source rank's shard: rows of `row_elements`, of which columns [column, column + columns) are wanted.
struct SourcePart {
  Index rank = 0;
  Index first = 0;  ///< stored element at which row 0 begins
  Index rows = 0;
  Index row_elements = 0;
  Index column = 0;
  Index columns = 0;

  /// Elements from the first wanted one to the last.
  Index span_elements() const { return rows == 0 ? 0 : (rows - 1) * row_elements + columns; }

  friend bool operator==(const SourcePart&, const SourcePart&) = default;
};

/// A contiguous piece of a target shard, the same on each of `ranks`.
struct TargetPart {
  std::span<const Index> ranks;
  Index first = 0;  ///< stored element
  Index elements = 0;
  /// Whether the copies leave some of it out: padding inside the piece.
  bool has_padding = false;
};

/// Temporary padding: elements of a target that hold the `pad_value` of dim `dim`. Where dims meet, padding with zeros
/// wins, then the outermost dim. The box's source is one element, repeated.
struct PadBox {
  std::size_t dim = 0;
  layout::CopyBox box;
};

/// Boxes refer to sources and targets by number. Source offsets count from the part's first row and column 0: for a
/// buffer that holds less, subtract SourcePart::column (and use its pitch).
struct Tile {
  std::vector<SourcePart> sources;
  std::vector<TargetPart> targets;
  std::vector<layout::CopyBox> copies;  ///< dims[0] is the row dim, not flattened
  std::vector<PadBox> pads;

  Index source_elements() const;
  Index target_elements() const;
};

class Tiling {
 public:
  /// Tiles of about `tile_elements` source and target elements together, at least one row. `element_bytes` plays no
  /// part: sizes are in elements.
  Tiling(const layout::TensorLayout& source, const layout::TensorLayout& target, Index tile_elements);

  std::size_t size() const { return tile_count_; }
  /// `sources`: the source rank of each piece, of choose_sources. The TargetPart spans stay valid with this Tiling.
  Tile tile(std::size_t number, std::span<const Index> sources) const;
  /// The whole shards of the target, each once.
  std::vector<TargetPart> shards() const;
  /// Elements of the tensor.
  Index tensor_elements() const { return tensor_elements_; }

 private:
  struct Dim {
    std::vector<JoinedRange> ranges;
    std::vector<Index> starts;  ///< sum of the lengths before a range
    Index total = 0;            ///< sum of all lengths
    Index piece_stride = 1;
    Index logical_stride = 1;
  };
  /// A combination of ranges of the inner dims.
  struct Inner {
    std::vector<std::size_t> ranges;  ///< one per inner dim
    Index piece = 0;
    Index logical = 0;
  };

  void choose_row_dim(Index tile_elements);
  Index row_cost(std::size_t row_dim) const;

  layout::TensorLayout source_;
  layout::TensorLayout target_;
  std::vector<Dim> dims_;
  std::vector<Inner> inner_;
  std::map<std::vector<std::int32_t>, std::vector<Index>> target_ranks_;  ///< by part of every dim
  std::size_t row_dim_ = 0;
  Index rows_per_tile_ = 1;
  std::vector<std::size_t> first_block_;  ///< by range of the row dim: number of its first block
  std::size_t blocks_ = 0;
  std::size_t tile_count_ = 0;
  Index tensor_elements_ = 1;
};

}  // namespace reshard::planner
