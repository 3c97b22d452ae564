#include "reshard/layout/cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/layout/axis_cut.hpp"
#include "reshard/layout/legal_sizes.hpp"
#include "reshard/layout/line.hpp"

namespace reshard::layout {
namespace {

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

bool another_size_helps(ErrorCode code) {
  return code == ErrorCode::kIndivisible || code == ErrorCode::kEmptyShard || code == ErrorCode::kRepeat;
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

// What a check refuses; numbers of the cut that go beyond 63 bits are refused like any other fault of the dim.
template <typename Check>
std::optional<Refusal> refusal_of(Check check) {
  try {
    return check();
  } catch (const Error& error) {
    if (error.issues().front().code != ErrorCode::kOverflow) throw;
    return Refusal{error.issues().front().code, error.issues().front().message};
  }
}

std::optional<Refusal> wrong_option(const DimCut& cut) {
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
      if (auto refused = multiple_refusal(first, "pad_total", *cut.pad_total)) return refused;
    }
  }
  for (const AxisCut& axis : axis_cuts(cut))
    if (auto refused = axis.option_refusal()) return refused;
  return std::nullopt;
}

std::optional<Refusal> decide(DimCut& cut, Index length, std::vector<std::string>& fallen_back,
                              std::span<const BlockNumbering> blocks) {
  if (auto refused = wrong_option(cut)) return refused;
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
      if (another_size_helps(refused->code))
        refused->message += legal_sizes_text(cut.levels[i], line, i == 0 ? blocks : std::span<const BlockNumbering>());
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
    throw Error(Issue{refused->code, "", kNoTensor, std::move(refused->message)});
}

}  // namespace

std::optional<Refusal> option_refusal(const DimCut& cut) {
  return refusal_of([&] { return wrong_option(cut); });
}

std::optional<Refusal> resolve_fallbacks(DimCut& cut, Index length, std::vector<std::string>& fallen_back,
                                         std::span<const BlockNumbering> blocks) {
  return refusal_of([&] { return decide(cut, length, fallen_back, blocks); });
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

}  // namespace reshard::layout
