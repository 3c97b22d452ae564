#include "reshard/layout/level_in_blocks.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/layout/axis_cut.hpp"

namespace reshard::layout {
namespace {

// Positions [begin, end) of a line that the level cuts on their own.
struct Part {
  Index begin = 0;
  Index end = 0;
  Index unit = 1;
  std::optional<Fallback> fallback;  // where it is not the level's
};

std::vector<Part> parts_of(const Level& level, Index length) {
  std::vector<Part> out;
  Index begin = 0;
  for (const Segment& segment : level.segments) {
    out.push_back({begin, begin + segment.size, segment.unit.value_or(level.unit), segment.fallback});
    begin += segment.size;
  }
  for (Index i = 0; level.segments.empty() && i < level.stride; ++i) {
    const Index size = length / level.stride;
    out.push_back({i * size, (i + 1) * size, level.unit, std::nullopt});
  }
  return out;
}

Level bare(const Level& level) {
  Level out;
  out.axis = level.axis;
  out.axis_size = level.axis_size;
  return out;
}

class InBlocks {
 public:
  InBlocks(const Level& level, const BlockedLine& line, const BlockNumbering& blocks, Index divisor)
      : level_(level), line_(line), blocks_(blocks), divisor_(divisor) {}

  /// Parts cut in units: a unit that is no whole number of blocks has them only in what coordinate 0 holds. 5 elements
  /// of 3 units over 2 coordinates are 10 and 5; in blocks of 2 they are 5 and 3, one unit of 5 each.
  std::optional<Level> by_units() const {
    Level out = bare(level_);
    out.split = level_.split;
    out.fallback = level_.fallback;
    const std::vector<Part> parts = parts_of(level_, line_.elements.length());
    Index from = 0;                 // blocks before the part
    std::vector<const Part*> open;  // parts that end inside a block go together: only whole ones do
    for (const Part& part : parts) {
      open.push_back(&part);
      const std::optional<Index> to = blocks_before(part.end);
      if (!to) continue;
      if (*to > from) out.segments.push_back(joined(open, *to - from));
      from = *to;
      open.clear();
    }
    if (!open.empty() || out.segments.empty()) return std::nullopt;
    if (out.segments.size() == 1 && level_.segments.size() <= 1) {
      const Segment only = out.segments.front();
      out.segments.clear();
      out.unit = only.unit.value_or(1);
      out.fallback = only.fallback.value_or(out.fallback);
    }
    return out;
  }

  /// Shares of parts. A share of h elements that is no whole number of blocks is one in bundles of D: shares [2, 1] of
  /// 9 elements are 6 and 3; in blocks of 2 they are 3 and 2, shares [1, 1] of units of 3.
  std::optional<Level> by_shares() const {
    Level out = bare(level_);
    out.split = Split::kShares;
    out.shares = level_.shares;
    const Index sum = std::accumulate(level_.shares.begin(), level_.shares.end(), Index{0});
    const std::vector<Part> parts = parts_of(level_, line_.elements.length());
    Index bundle = 1;
    std::vector<Index> share_elements;
    for (const Part& part : parts) {
      share_elements.push_back(checked_mul(ceil_div(part.end - part.begin, part.unit) / sum, part.unit));
      const Index needed = divisor_ / std::gcd(share_elements.back(), divisor_);
      bundle = checked_mul(bundle / std::gcd(bundle, needed), needed);
    }
    const auto last = std::find_if(out.shares.rbegin(), out.shares.rend(), [](Index share) { return share > 0; });
    for (auto share = out.shares.rbegin(); share != out.shares.rend(); ++share) {
      if (share != last && *share % bundle != 0) return std::nullopt;
      *share = ceil_div(*share, bundle);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Index unit = std::max(checked_mul(share_elements[i], bundle) / divisor_, Index{1});
      if (parts.size() == 1) {
        out.unit = unit;
        break;
      }
      const std::optional<Index> from = blocks_before(parts[i].begin);
      const std::optional<Index> to = blocks_before(parts[i].end);
      if (!from || !to || *from == *to) return std::nullopt;
      out.segments.push_back({*to - *from, unit == 1 ? std::nullopt : std::optional(unit), {}});
    }
    return out;
  }

  /// Shares as the numbers of blocks that the coordinates hold.
  std::optional<Level> by_counts(const AxisCut& axis) const {
    Level out = bare(level_);
    out.split = Split::kShares;
    Index common = 0;
    for (Index c = 0; c < level_.axis_size; ++c) {
      out.shares.push_back(blocks_.to_blocks(axis.take(line_.elements, c).shard()).stored_length);
      common = std::gcd(common, out.shares.back());
    }
    if (common == 0) return std::nullopt;
    for (Index& share : out.shares) share /= common;
    return out;
  }

 private:
  // Blocks of the line before a position; nothing where that lies inside a block.
  std::optional<Index> blocks_before(Index position) const {
    Line before;
    before.append(line_.elements, 0, position);
    const DimShard shard = before.shard();
    if (blocks_.split_at(shard)) return std::nullopt;
    return blocks_.to_blocks(shard).stored_length;
  }

  Segment joined(const std::vector<const Part*>& parts, Index blocks) const {
    Segment out{blocks, {}, parts.front()->fallback};
    Index unit = parts.front()->unit / divisor_;
    if (parts.size() > 1 || parts.front()->unit % divisor_ != 0) {
      Index held = 0;  // by coordinate 0
      for (const Part* part : parts) {
        Level alone = bare(level_);
        alone.split = level_.split;
        alone.unit = part->unit;
        alone.fallback = part->fallback.value_or(level_.fallback);
        held += AxisCut({&alone, 1}, Fill::kZero).part_length(part->end - part->begin, 0);
      }
      unit = std::max(ceil_div(held, divisor_), Index{1});
      if (level_.split == Split::kEven && unit < blocks) unit = 1;  // equal numbers of blocks
    }
    if (unit != 1) out.unit = unit;
    return out;
  }

  const Level& level_;
  const BlockedLine& line_;
  const BlockNumbering& blocks_;
  Index divisor_;
};

void add_padded(const Level& level, std::span<const BlockedLine> lines, const AxisCut& axis, Index divisor,
                std::span<const Index> widths, std::vector<Level>& out) {
  if (level.pad_to && *level.pad_to % divisor == 0) out.push_back(plain_level_in_blocks(level, divisor));
  for (const Index width : widths) {
    const Index padding = checked_mul(width, level.axis_size) - lines.front().blocks.length();
    if (padding < 0) continue;
    out.push_back(bare(level));
    out.back().pad_rows = padding;
  }
  // Lines of several lengths need an alignment that gives each its own padding.
  Index common = 0;
  for (const BlockedLine& line : lines)
    common = std::gcd(common, ceil_div(axis.part_length(line.elements.length(), 0), divisor));
  for (Index align = 1; align <= common && lines.size() > 1; ++align) {
    if (common % align != 0) continue;
    out.push_back(bare(level));
    out.back().pad_to = align;
  }
}

void add_sequence(const Level& level, Index divisor, std::vector<Level>& out) {
  if (level.layout != SequenceLayout::kContiguous) out.push_back(plain_level_in_blocks(level, divisor));
  // What is packed, or in which order chunks go, does not matter to whole pieces of a line, or to one that coordinate 0
  // holds alone.
  out.push_back(bare(level));
}

}  // namespace

Level plain_level_in_blocks(const Level& level, Index divisor) {
  if (level.axis_size == 1) return bare(level);
  Level out = level;
  out.unit = level.unit % divisor == 0 ? level.unit / divisor : 1;
  out.block = level.block % divisor == 0 ? level.block / divisor : 1;
  if (level.pad_to) out.pad_to = ceil_div(*level.pad_to, divisor);
  if (out.packed) {
    PackedSequences& packed = *out.packed;
    // Where sequences really lie; entries of a block belong to all elements in it, padding or not.
    if (!packed.cu_seqlens_padded.empty()) packed.cu_seqlens = std::move(packed.cu_seqlens_padded);
    packed.cu_seqlens_padded.clear();
    for (Index& boundary : packed.cu_seqlens) boundary = ceil_div(boundary, divisor);
  }
  return out;
}

std::vector<Level> levels_in_blocks(const Level& level, std::span<const BlockedLine> lines,
                                    const BlockNumbering& blocks, Index divisor, std::span<const Index> widths) {
  if (level.axis_size == 1) return {bare(level)};
  const AxisCut axis({&level, 1}, Fill::kZero);
  std::vector<Level> out;
  if (level.layout != SequenceLayout::kContiguous || level.packed) {
    add_sequence(level, divisor, out);
    return out;
  }
  if (level.pad_to || level.pad_rows) {
    add_padded(level, lines, axis, divisor, widths, out);
    return out;
  }
  std::vector<Index> lengths;
  if (level.segments.empty()) out.push_back(plain_level_in_blocks(level, divisor));
  for (const BlockedLine& line : lines) {
    // Lines of one length are cut alike.
    const Index length = line.blocks.length();
    if (std::find(lengths.begin(), lengths.end(), length) != lengths.end()) continue;
    lengths.push_back(length);
    const InBlocks in_blocks(level, line, blocks, divisor);
    for (std::optional<Level> way :
         {level.split == Split::kShares ? in_blocks.by_shares() : in_blocks.by_units(), in_blocks.by_counts(axis)})
      if (way) out.push_back(std::move(*way));
  }
  if (out.empty()) out.push_back(bare(level));  // nothing to cut
  return out;
}

}  // namespace reshard::layout
