#include "reshard/layout/legal_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "reshard/layout/axis_cut.hpp"
#include "reshard/layout/line.hpp"

namespace reshard::layout {
namespace {

constexpr Index kMaxNamedSize = 1024;    // legal sizes beyond this are not looked for
constexpr std::size_t kNamedSizes = 12;  // nor are more than this many written down

bool keeps_blocks_whole(const AxisCut& axis, const Line& line, std::span<const BlockNumbering> blocks) {
  for (Index c = 0; !blocks.empty() && c < axis.size(); ++c) {
    const DimShard shard = axis.take(line, c).shard();
    if (std::any_of(blocks.begin(), blocks.end(), [&](const BlockNumbering& b) { return b.split_at(shard); }))
      return false;
  }
  return true;
}

}  // namespace

std::vector<Index> legal_axis_sizes(const Level& level, Index length, Index limit,
                                    std::span<const BlockNumbering> blocks) {
  std::vector<Index> out;
  for (Index n = 1; n <= limit; ++n) {
    DimCut trial;
    trial.levels = {level};
    trial.levels.front().axis_size = n;
    const AxisCut axis(trial.levels, Fill::kZero);
    if (axis.option_refusal() || axis.refusal(length)) continue;
    if (keeps_blocks_whole(axis, Line(length), blocks)) out.push_back(n);
  }
  return out;
}

std::string legal_sizes_text(const Level& level, Index length, std::span<const BlockNumbering> blocks) {
  if (level.split == Split::kShares || level.layout != SequenceLayout::kContiguous || level.packed) return {};
  const std::vector<Index> legal = legal_axis_sizes(level, length, kMaxNamedSize, blocks);
  if (legal.empty()) return {};
  const std::size_t named = std::min(legal.size(), kNamedSizes);
  return fmt::format("; legal sizes of '{}': {}{}", level.axis,
                     fmt::join(legal.begin(), legal.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                     named < legal.size() ? ", ..." : "");
}

}  // namespace reshard::layout
