#pragma once
// A line: the global indices that a coordinate still holds of one dim, in local order, with padding between them.
// Levels take slices of it, so that all cutting is interval algebra: cost in pieces, never in elements.

#include <optional>
#include <vector>

#include "reshard/layout/cut.hpp"

namespace reshard::layout {

class Line {
 public:
  Line() = default;
  /// The line of a dim before any cut: global indices 0 .. length-1.
  explicit Line(Index length);

  Index length() const { return length_; }

  /// Appends positions [begin, end) of another line; neighbours that continue each other are joined. O(log + pieces
  /// taken).
  void append(const Line& from, Index begin, Index end);
  /// Appends stored positions without an element; `padding.stored` is ignored.
  void append(const Pad& padding);

  /// Global index of the last element, padding left out; nothing on a line without elements.
  std::optional<Index> last_element() const;

  /// The line as what one coordinate stores.
  DimShard shard() const;

 private:
  struct Piece {
    Index at = 0;  // local position
    Index length = 0;
    Index global = 0;        // of the first element; without meaning for padding
    std::optional<Pad> pad;  // set: padding, of which `stored` and `length` are without meaning
  };

  void push(Piece piece);

  std::vector<Piece> pieces_;  // tile [0, length_)
  Index length_ = 0;
};

}  // namespace reshard::layout
