#include "reshard/layout/cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/layout/axis_cut.hpp"
#include "reshard/layout/blocks.hpp"
#include "reshard/layout/line.hpp"

namespace reshard::layout {
namespace {

constexpr Index kMaxNamedSize = 1024;    // legal sizes beyond this are not looked for
constexpr std::size_t kNamedSizes = 12;  // nor are more than this many written down

std::vector<AxisCut> axis_cuts(const DimCut& cut) {
  std::vector<AxisCut> out;
  const std::span<const Level> levels = cut.levels;
  for (std::size_t i = 0; i < levels.size(); ++i) out.emplace_back(levels.subspan(i), cut.fill);
  return out;
}

Index total_padding(const DimCut& cut, Index length) {
  if (!cut.pad_total) return 0;
  const Index align = checked_mul(*cut.pad_total, cut.levels.empty() ? 1 : cut.levels.front().axis_size);
  return (align - length % align) % align;
}

// Names the sizes that would have been accepted, for faults that another size cures.
void add_legal_sizes(Refusal& refusal, const Level& level, Index length) {
  if (refusal.code != ErrorCode::kIndivisible && refusal.code != ErrorCode::kEmptyShard &&
      refusal.code != ErrorCode::kRepeat)
    return;
  if (level.split == Split::kShares) return;
  const std::vector<Index> legal = legal_axis_sizes(level, length, kMaxNamedSize);
  if (legal.empty()) return;
  const std::size_t named = std::min(legal.size(), kNamedSizes);
  refusal.message += fmt::format("; legal sizes of '{}': {}{}", level.axis,
                                 fmt::join(legal.begin(), legal.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                                 named < legal.size() ? ", ..." : "");
}

Line padded_line(const DimCut& cut, Index length) {
  Line line(length);
  line.append(Pad{0, total_padding(cut, length), cut.fill == Fill::kLast ? line.last_element() : std::nullopt, false});
  return line;
}

void take_all(std::span<const AxisCut> axes, const Line& line, std::vector<DimShard>& out) {
  if (axes.empty()) {
    out.push_back(line.shard());
    return;
  }
  for (Index c = 0; c < axes.front().size(); ++c) take_all(axes.subspan(1), axes.front().take(line, c), out);
}

void lengths_of(std::span<const AxisCut> axes, Index length, std::vector<Index>& out) {
  if (axes.empty()) {
    out.push_back(length);
    return;
  }
  for (Index c = 0; c < axes.front().size(); ++c) lengths_of(axes.subspan(1), axes.front().part_length(length, c), out);
}

// cut_dim's check: every fault is one, also where `fallback: replicate` would help.
void require_cuttable(const DimCut& cut, Index length) {
  DimCut copy = cut;
  for (Level& level : copy.levels) {
    if (level.fallback == Fallback::kReplicate) level.fallback = Fallback::kError;
    for (Segment& segment : level.segments)
      if (segment.fallback == Fallback::kReplicate) segment.fallback = Fallback::kError;
  }
  std::vector<std::string> fallen_back;
  if (auto refused = resolve_fallbacks(copy, length, fallen_back))
    throw Error(Issue{refused->code, "", "", std::move(refused->message)});
}

}  // namespace

Index DimShard::true_length() const {
  Index out = 0;
  for (const Run& run : runs) out += run.length;
  return out;
}

std::optional<Refusal> option_refusal(const DimCut& cut) {
  if (cut.pad_total) {
    if (*cut.pad_total < 1)
      return Refusal{ErrorCode::kPad, fmt::format("pad_total {}, expected 1 or more", *cut.pad_total)};
    if (!cut.levels.empty()) {
      const Level& first = cut.levels.front();
      if (first.unit != 1 || !first.segments.empty() || first.stride != 1 || first.split != Split::kEven)
        return Refusal{ErrorCode::kSchema,
                       fmt::format("axis '{}': padding ('pad_total') excludes 'unit', 'segments', 'stride' and 'split' "
                                   "on the same axis",
                                   first.axis)};
    }
  }
  for (const AxisCut& axis : axis_cuts(cut))
    if (auto refused = axis.option_refusal()) return refused;
  return std::nullopt;
}

std::optional<Refusal> resolve_fallbacks(DimCut& cut, Index length, std::vector<std::string>& fallen_back) {
  if (auto refused = option_refusal(cut)) return refused;
  std::set<Index> lengths = {checked_add(length, total_padding(cut, length))};
  for (std::size_t i = 0; i < cut.levels.size(); ++i) {
    const AxisCut axis(std::span<const Level>(cut.levels).subspan(i), cut.fill);
    bool falls_back = false;
    for (const Index line : lengths) {
      auto refused = axis.refusal(line);
      if (!refused) continue;
      if (refused->may_fall_back) {
        falls_back = true;
        continue;
      }
      add_legal_sizes(*refused, cut.levels[i], line);
      if (i > 0) refused->message += fmt::format(" (a line that '{}' leaves)", cut.levels[i - 1].axis);
      return refused;
    }
    if (falls_back) {
      fallen_back.push_back(cut.levels[i].axis);
      Level whole;
      whole.axis = cut.levels[i].axis;
      cut.levels[i] = std::move(whole);
      continue;
    }
    std::set<Index> next;
    for (const Index line : lengths)
      for (Index c = 0; c < axis.size(); ++c) next.insert(axis.part_length(line, c));
    lengths = std::move(next);
  }
  return std::nullopt;
}

std::vector<Index> stored_lengths(const DimCut& cut, Index length) {
  std::vector<Index> out;
  lengths_of(axis_cuts(cut), checked_add(length, total_padding(cut, length)), out);
  return out;
}

DimShard cut_dim(const DimCut& cut, Index length, std::span<const Index> coordinates) {
  require_cuttable(cut, length);
  Line line = padded_line(cut, length);
  const std::vector<AxisCut> axes = axis_cuts(cut);
  for (std::size_t i = 0; i < axes.size(); ++i) line = axes[i].take(line, coordinates[i]);
  return line.shard();
}

std::vector<DimShard> cut_dim_everywhere(const DimCut& cut, Index length) {
  require_cuttable(cut, length);
  std::vector<DimShard> out;
  take_all(axis_cuts(cut), padded_line(cut, length), out);
  return out;
}

std::vector<Index> legal_axis_sizes(const Level& level, Index length, Index limit, std::span<const Index> divisors) {
  std::vector<Index> out;
  std::vector<Index> segments;
  for (const Segment& segment : level.segments) segments.push_back(segment.size);
  for (Index n = 1; n <= limit; ++n) {
    DimCut trial;
    trial.levels = {level};
    trial.levels.front().axis_size = n;
    const AxisCut axis(trial.levels, Fill::kZero);
    if (axis.option_refusal() || axis.refusal(length)) continue;
    const bool whole_blocks = std::all_of(divisors.begin(), divisors.end(), [&](Index divisor) {
      const BlockNumbering blocks(length, divisor, segments);
      const Line line(length);
      for (Index c = 0; c < n; ++c)
        if (blocks.split_at(axis.take(line, c).shard())) return false;
      return true;
    });
    if (whole_blocks) out.push_back(n);
  }
  return out;
}

}  // namespace reshard::layout
