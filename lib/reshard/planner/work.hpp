#pragma once
// What there is to move: the tensors of a run, each with its tiling, and the order of all tiles.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "reshard/planner/tiling.hpp"

namespace reshard::planner {

/// One tensor to move. The tiling is shared by all tensors of its layout pair and element size.
struct WorkTensor {
  const Tiling* tiling = nullptr;
  std::vector<Index> sources;  ///< of choose_sources
  std::int64_t source_element_bytes = 1;
  std::int64_t target_element_bytes = 1;

  bool converts() const { return source_element_bytes != target_element_bytes || changes_dtype; }
  bool changes_dtype = false;
  /// By dim, as far as there are any: the element that its temporary padding holds, of target_element_bytes; empty for
  /// zero bytes.
  std::vector<std::vector<std::byte>> pad_values;

  std::span<const std::byte> pad_value(std::size_t dim) const {
    return dim < pad_values.size() ? std::span<const std::byte>(pad_values[dim]) : std::span<const std::byte>();
  }
};

/// Which tensors take part, by number; empty: all.
using Selection = std::vector<bool>;

/// Tile `number` of tensor `tensor`.
struct TileId {
  std::size_t tensor = 0;
  std::size_t number = 0;

  friend bool operator==(const TileId&, const TileId&) = default;
};

/// All tiles of the selected tensors, tensor by tensor. Within a tensor `lanes` places take turns, spread over it
/// evenly: threads that take tiles one after the other mostly write different files, of which one thread at a time can
/// write each.
///
///   7 tiles in 2 lanes: 0 4 1 5 2 6 3
class TileList {
 public:
  explicit TileList(std::span<const WorkTensor> tensors, int lanes = 1, const Selection& selected = {});
  std::size_t size() const { return starts_.back(); }
  TileId operator[](std::size_t i) const;

 private:
  std::vector<std::size_t> starts_;  // by tensor, and the total
  std::size_t lanes_;
};

/// Columns of a source part, none where `first` is not below `end`.
struct Columns {
  Index first = std::numeric_limits<Index>::max();
  Index end = 0;

  bool any() const { return first < end; }
};

/// What the wanted targets of a tile need, by source.
std::vector<Columns> wanted_columns(const Tile& tile, const std::vector<bool>& wanted);

/// Keeps of a tile what the wanted targets need: unwanted targets go, sources shrink to the rows and columns still
/// read, sources that nothing needs go. Numbers in the copies follow.
Tile restricted(const Tile& tile, const std::vector<bool>& wanted);

}  // namespace reshard::planner
