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

}  // namespace reshard::plan_cases
