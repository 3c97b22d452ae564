#pragma once
// One level at work: what one axis keeps of a line. Whether it can cut depends on the line's length alone, so that
// refusals and stored lengths are known without cutting anything (reference: plan format sections 5, 6 and 9).

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reshard/layout/cut.hpp"
#include "reshard/layout/line.hpp"

namespace reshard::layout {

/// kOverflow where the line that an option makes a multiple of `number` on every coordinate of the axis has a length
/// beyond 63 bits.
std::optional<Refusal> multiple_refusal(const Level& level, std::string_view option, Index number);

class AxisCut {
 public:
  /// The first of `levels`; the ones behind it tell what a packed sequence has to leave them. `fill` is the dim's.
  AxisCut(std::span<const Level> levels, Fill fill);

  Index size() const { return level_.axis_size; }

  /// Options that exclude each other or are out of range whatever the length (kSchema, kStride, kSegmentSum, kPad,
  /// kOwner, kOverflow).
  std::optional<Refusal> option_refusal() const;

  /// Why a line of this length cannot be cut; nothing where it can. Assumes that the options are in order.
  std::optional<Refusal> refusal(Index length) const;

  /// Stored length of coordinate c's part of a line that is not refused.
  Index part_length(Index length, Index c) const;

  /// Coordinate c's part of a line that is not refused.
  Line take(const Line& line, Index c) const;

 private:
  // A fused part of the line, cut on its own: positions [begin, begin + size).
  struct Part {
    Index begin = 0;
    Index size = 0;
    Index unit = 1;
    Fallback fallback = Fallback::kError;
  };
  struct Extent {
    Index begin = 0;
    Index end = 0;
  };

  std::vector<Part> parts(Index length) const;
  std::optional<Refusal> runs_refusal(Index runs) const;
  std::optional<Refusal> part_refusal(const Part& part, std::size_t number) const;
  Extent extent(const Part& part, Index c) const;
  bool is_padded() const { return level_.axis_size > 1 && (level_.pad_to || level_.pad_rows); }
  bool is_sequence() const { return level_.layout != SequenceLayout::kContiguous; }
  Index padding(Index length) const;

  const Level& level_;
  Fill fill_;
  Index inner_multiple_;  // what the stream of a packed sequence must be a multiple of
};

}  // namespace reshard::layout
