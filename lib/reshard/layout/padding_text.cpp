#include "reshard/layout/padding_text.hpp"

#include <fmt/format.h>

#include "reshard/base/checked.hpp"

namespace reshard::layout {

std::string padding_text(const DimCut& cut) {
  std::string out;
  if (cut.pad_total) {
    const Index size = cut.levels.empty() ? 1 : cut.levels.front().axis_size;
    out += fmt::format("; pad_total {} over {} coordinates makes the dim a multiple of {}", *cut.pad_total, size,
                       checked_mul(*cut.pad_total, size));
  }
  for (const Level& level : cut.levels) {
    if (level.axis_size == 1) continue;
    if (level.pad_to)
      out += fmt::format("; pad_to {} over axis '{}' of size {} makes its line a multiple of {}", *level.pad_to,
                         level.axis, level.axis_size, checked_mul(*level.pad_to, level.axis_size));
    if (level.pad_rows)
      out += fmt::format("; pad_rows adds {} to the line of axis '{}' of size {}", *level.pad_rows, level.axis,
                         level.axis_size);
  }
  return out;
}

}  // namespace reshard::layout
