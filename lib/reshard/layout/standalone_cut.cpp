#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"
#include "reshard/layout/group.hpp"
#include "reshard/layout/member_layout.hpp"

namespace reshard::layout {
namespace {

// Units of u elements in blocks of k. 384 in blocks of 128: 3. A unit that is no whole number of blocks can only bind a
// part that is one unit (100 in blocks of 64: 2), or stand where every boundary happens to be one of blocks, so that
// blocks may be dealt one by one.
Index unit_in_blocks(Index unit, Index size, Index divisor) {
  if (unit % divisor == 0) return unit / divisor;
  return unit >= size && size > 0 ? ceil_div(size, divisor) : 1;
}

Level level_in_blocks(const Level& level, Index line, Index line_blocks, Index divisor) {
  Level out;
  out.axis = level.axis;
  out.axis_size = level.axis_size;
  if (level.axis_size == 1) return out;  // cuts nothing and pads nothing
  out = level;
  out.unit = unit_in_blocks(level.unit, line / level.stride, divisor);
  out.block = level.layout == SequenceLayout::kStriped ? level.block / divisor : 1;
  for (Segment& segment : out.segments) {
    segment.unit = unit_in_blocks(segment.unit.value_or(level.unit), segment.size, divisor);
    segment.size = ceil_div(segment.size, divisor);
  }
  if (level.stride > 1 && line_blocks % checked_mul(level.stride, level.axis_size) != 0) {
    // Stride asks for more than its equal parts need: 20 over 2 with stride 2 and units of 2 balanced is 2 segments of
    // 5 blocks.
    out.segments.assign(static_cast<std::size_t>(level.stride), {line / level.stride / divisor, {}, {}});
    out.stride = 1;
  }
  if (level.pad_to && *level.pad_to % divisor == 0) {
    out.pad_to = *level.pad_to / divisor;
  } else if (level.pad_to || level.pad_rows) {
    // Each coordinate stores ceil(w / k) blocks: the rest of them is padding.
    DimCut alone;
    alone.levels = {level};
    const Index width = stored_lengths(alone, line).front();
    out.pad_to.reset();
    if (level.pad_rows && *level.pad_rows % divisor == 0 && width % divisor == 0)
      out.pad_rows = *level.pad_rows / divisor;
    else
      out.pad_rows = checked_mul(level.axis_size, ceil_div(width, divisor)) - line_blocks;
  }
  return out;
}

// The cut of a dim in elements, said in blocks of `divisor`, of which there are `count`. `cut` has no fallback left to
// decide.
DimCut in_blocks(const DimCut& cut, Index length, Index count, Index divisor) {
  DimCut out;
  out.size = count;
  out.fill = cut.fill;
  DimCut before = cut;  // the levels in front of the current one
  before.levels.clear();
  Index line = length;
  Index line_blocks = count;
  if (cut.pad_total) {
    const Index n = cut.levels.empty() ? 1 : cut.levels.front().axis_size;
    line = checked_mul(ceil_div(length, checked_mul(*cut.pad_total, n)), checked_mul(*cut.pad_total, n));
    out.pad_total = std::max(ceil_div(line / n, divisor), Index{1});
    line_blocks = checked_mul(*out.pad_total, n);
  }
  for (const Level& level : cut.levels) {
    out.levels.push_back(level_in_blocks(level, line, line_blocks, divisor));
    before.levels.push_back(level);
    line = stored_lengths(before, length).front();
    line_blocks = stored_lengths(out, count).front();
  }
  return out;
}

}  // namespace

std::vector<DimCut> standalone_cut(const GroupMember& member, const GroupShape::Member& member_shape,
                                   const GroupShape& shape, const GroupCut& cut, const Mesh& mesh) {
  std::vector<DimCut> out;
  for (std::size_t d = 0; d < member.dims.size(); ++d) {
    const MemberDim& token = member.dims[d];
    if (token.name.empty() || token.divisor == 1) {
      out.push_back(token.name.empty() ? DimCut{} : cut.of(token.name));
      continue;
    }
    const GroupShape::Dim& dim = shape.of(token.name);
    DimCut resolved = cut.of(token.name);
    std::vector<std::string> fallen_back;
    if (auto refused = resolve_fallbacks(resolved, dim.size, fallen_back))
      throw Error(Issue{refused->code, "", "", fmt::format("dim '{}': {}", dim.name, refused->message)});
    const DimLayout expected =
        member_dim(lay_out_dim(resolved, dim.size, mesh), token.divisor, dim, member_shape.restarts[d]);
    const bool packed = std::any_of(resolved.levels.begin(), resolved.levels.end(),
                                    [](const Level& level) { return level.packed.has_value(); });
    std::optional<DimCut> said;
    if (!packed) said = in_blocks(resolved, dim.size, member_shape.shape[d], token.divisor);
    std::vector<std::string> none;
    DimCut check = said.value_or(DimCut{});
    if (!said || resolve_fallbacks(check, member_shape.shape[d], none) ||
        lay_out_dim(*said, member_shape.shape[d], mesh) != expected)
      throw Error(
          Issue{ErrorCode::kUnsupported, "", "",
                fmt::format("dim '{}' of member '{}': its blocks of {} cannot be recorded as a cut of their own",
                            dim.name, member.name, token.divisor)});
    out.push_back(std::move(*said));
  }
  return out;
}

}  // namespace reshard::layout
