#include "support/naive_blocks.hpp"

namespace reshard::naive {

std::vector<Index> number_blocks(Index length, Index divisor, const std::vector<Index>& segments) {
  std::vector<Index> out;
  Index block = -1;
  Index in_segment = 0;
  std::size_t segment = 0;
  for (Index i = 0; i < length; ++i, ++in_segment) {
    if (!segments.empty() && in_segment == segments[segment]) {
      in_segment = 0;
      ++segment;
    }
    if (in_segment % divisor == 0) ++block;
    out.push_back(block);
  }
  return out;
}

std::optional<Line> to_blocks(const Line& line, const std::vector<Index>& number, Index divisor) {
  Line out;
  std::vector<Index> held;   // elements in block order
  std::vector<Index> whole;  // all elements of the blocks named in `out`
  Index room = 0;
  bool after_padding = false;
  for (const Cell& cell : line) {
    if (cell.global != kPadding) {
      const Index block = number[static_cast<std::size_t>(cell.global)];
      const bool same = !after_padding && !out.empty() && out.back().global == block && !held.empty() &&
                        held.back() + 1 == cell.global;
      after_padding = false;
      if (!same) {
        out.push_back({block, kPadding, false});
        for (std::size_t i = 0; i < number.size(); ++i)
          if (number[i] == block) whole.push_back(static_cast<Index>(i));
        room = divisor;
      }
      held.push_back(cell.global);
      --room;
      continue;
    }
    after_padding = true;
    if (room == 0) {
      const Index copy = cell.copy_of == kPadding ? kPadding : number[static_cast<std::size_t>(cell.copy_of)];
      out.push_back({kPadding, copy, cell.temporary});
      room = divisor;
    }
    --room;
  }
  if (held != whole) return std::nullopt;
  return out;
}

}  // namespace reshard::naive
