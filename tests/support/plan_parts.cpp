#include "support/plan_parts.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace reshard::plan_cases {

std::vector<std::byte> pad_element(Dtype dtype, int value) {
  const std::map<Dtype, std::array<std::uint64_t, 2>> floats = {{Dtype::kF64, {0x3ff0000000000000, 0x4000000000000000}},
                                                                {Dtype::kF32, {0x3f800000, 0x40000000}},
                                                                {Dtype::kC64, {0x3f800000, 0x40000000}},
                                                                {Dtype::kBf16, {0x3f80, 0x4000}},
                                                                {Dtype::kF16, {0x3c00, 0x4000}},
                                                                {Dtype::kF8E4M3, {0x38, 0x40}}};
  const auto known = floats.find(dtype);
  const std::uint64_t bits =
      known == floats.end() ? static_cast<std::uint64_t>(value) : known->second[static_cast<std::size_t>(value - 1)];
  std::vector<std::byte> out(static_cast<std::size_t>(size_bytes(dtype)));
  for (std::size_t i = 0; i < std::min<std::size_t>(out.size(), 8); ++i)
    out[i] = static_cast<std::byte>(bits >> (8 * i));
  return out;
}

const std::vector<layout::Axis>& axes_of(const SideSpec& side, bool expert) {
  return expert && !side.expert.empty() ? side.expert : side.axes;
}

std::optional<layout::Axis> find_axis(const std::vector<layout::Axis>& axes, const std::string& name) {
  for (const layout::Axis& axis : axes)
    if (axis.name == name) return axis;
  return std::nullopt;
}

Index coordinate(const std::vector<layout::Axis>& axes, Index position, const std::string& name) {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->name == name) return position % axis->size;
    position /= axis->size;
  }
  return 0;
}

std::optional<std::vector<naive::Line>> lines_of(const DimCut& cut, Index length, const SideSpec& side,
                                                 const std::vector<layout::Axis>& axes) {
  const naive::CutDim dim = naive::cut_dim(cut, length);
  if (!dim.faults.empty()) return std::nullopt;
  std::vector<naive::Line> out = naive::lines_by_rank(dim, cut, axes, side.ranks);
  for (const naive::Line& line : out)
    if (length == 0 && !line.empty()) return std::nullopt;  // nothing but padding
  return out;
}

bool is_inferred(const DimCut& cut, Index length) {
  if (cut.pad_total) return false;
  std::vector<Index> stored;
  Index limit = 0;
  for (const naive::Line& line : naive::cut_dim(cut, length).lines) {
    stored.push_back(static_cast<Index>(line.size()));
    limit += stored.back();
  }
  return limit <= 200 && naive::lengths_that_fit(cut, stored, limit) == std::vector<Index>{length};
}

std::optional<naive::Line> blocks(const naive::Line& line, Index k, Index length) {
  naive::Line out;
  for (std::size_t at = 0; at < line.size(); at += static_cast<std::size_t>(k)) {
    naive::Cell entry;
    Index held = 0;
    for (std::size_t i = at; i < std::min(line.size(), at + static_cast<std::size_t>(k)); ++i) {
      const naive::Cell& cell = line[i];
      if (cell.global == naive::kPadding) {
        if (entry.global == naive::kPadding && cell.copy_of != naive::kPadding) entry.copy_of = cell.copy_of / k;
        continue;
      }
      if (held == 0 && (cell.global % k != 0 || i != at)) return std::nullopt;
      if (held > 0 && (cell.global / k != entry.global || cell.global % k != held)) return std::nullopt;
      entry = {cell.global / k, naive::kPadding, false};
      ++held;
    }
    if (held > 0 && held < k && entry.global * k + held != length) return std::nullopt;
    out.push_back(entry);
  }
  return out;
}

DimCut draw_group_dim(Random& random, Index length, const std::vector<layout::Axis>& axes, Index k) {
  DimCut cut;
  for (const layout::Axis& axis : axes) {
    layout::Level& level = cut.levels.emplace_back();
    level.axis = axis.name;
    level.axis_size = axis.size;
  }
  layout::Level& level = cut.levels.front();
  const Index n = level.axis_size;
  switch (random.between(0, 6)) {
    case 0:
      level.unit = k;
      break;
    case 1:
      level.unit = k, level.split = layout::Split::kBalanced;
      break;
    case 2:
      level.unit = k, level.split = layout::Split::kChunk;
      break;
    case 3:
      if (length > n * k && length % (n * k) == 0) level.segments = {{n * k, {}, {}}, {length - n * k, {}, {}}};
      break;
    case 4:
      level.layout = layout::SequenceLayout::kZigzag;
      break;
    case 5:
      level.stride = 2;
      break;
    default:
      break;
  }
  layout::Level& last = cut.levels.back();
  if (random.chance(30) && last.unit == 1 && last.split == layout::Split::kEven && last.segments.empty() &&
      last.stride == 1 && last.layout == layout::SequenceLayout::kContiguous) {
    last.pad_to = k;
    if (random.chance(40)) cut.fill = layout::Fill::kLast;
  }
  return cut;
}

}  // namespace reshard::plan_cases
