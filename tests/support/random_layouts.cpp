#include "support/random_layouts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <utility>

namespace reshard::random_layouts {
namespace {

using layout::DimCut;
using layout::Fallback;
using layout::Level;
using layout::Segment;
using layout::SequenceLayout;
using layout::Split;

const std::vector<Index> kLengths = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 12, 14, 15, 16, 18,
                                     20, 24, 28, 30, 32, 36, 40, 42, 48, 8, 12, 16, 24, 24, 32, 48};

// `length` as a sum of parts of at least 1.
std::vector<Index> random_parts(Random& random, Index length, Index most) {
  std::vector<Index> out;
  while (length > 0) {
    const Index part = static_cast<Index>(out.size()) + 1 == most ? length : random.between(1, length);
    out.push_back(part);
    length -= part;
  }
  return out;
}

void draw_segments(Random& random, Index length, Level& level, std::set<std::string>& seen) {
  const Index n = level.axis_size;
  const bool fits = length > 0 && length % n == 0 && random.chance(90);
  for (const Index part : random_parts(random, fits ? length / n : std::max(length, Index{1}), 4)) {
    layout::Segment segment{fits ? part * n : part, {}, {}};
    if (random.chance(25)) {
      segment.unit = random.chance(50) ? segment.size : std::max(segment.size / n, Index{1});
      if (random.chance(60)) segment.fallback = Fallback::kRepeat;
      seen.insert("segment options");
    }
    level.segments.push_back(segment);
  }
}

void draw_packed(Random& random, Index length, Level& level, std::set<std::string>& seen) {
  layout::PackedSequences packed;
  packed.cu_seqlens = {0};
  for (const Index part : random_parts(random, length, 4)) {
    if (random.chance(20)) packed.cu_seqlens.push_back(packed.cu_seqlens.back());
    packed.cu_seqlens.push_back(packed.cu_seqlens.back() + part);
  }
  if (random.chance(15)) packed.cu_seqlens.push_back(packed.cu_seqlens.back());
  if (random.chance(30)) {
    // Physical padding: the same rows, of which the sequences fill a part.
    packed.cu_seqlens_padded = packed.cu_seqlens;
    for (std::size_t i = 1; i < packed.cu_seqlens.size(); ++i) {
      const Index room = packed.cu_seqlens_padded[i] - packed.cu_seqlens_padded[i - 1];
      packed.cu_seqlens[i] = packed.cu_seqlens[i - 1] + random.between(room / 2, room);
    }
  }
  level.packed = packed;
  if (random.chance(10)) level.packed_padding = layout::PackedPadding::kForbid;
  if (random.chance(90)) level.layout = layout::SequenceLayout::kZigzag;
  seen.insert("packed");
}

void draw_way(Random& random, const std::string& way, Index length, Level& level, DimCut& cut,
              std::set<std::string>& seen) {
  const Index n = level.axis_size;
  seen.insert(way);
  if (way == "segments") {
    draw_segments(random, length, level, seen);
  } else if (way == "stride") {
    level.stride = random.between(2, 4);
    if (random.chance(20)) level.split = layout::Split::kBalanced;
  } else if (way == "unit") {
    level.unit = random.between(2, 4);
    if (random.chance(40))
      level.split = random.one_of<layout::Split>({layout::Split::kBalanced, layout::Split::kChunk});
  } else if (way == "balanced") {
    level.split = layout::Split::kBalanced;
  } else if (way == "chunk") {
    level.split = layout::Split::kChunk;
  } else if (way == "shares") {
    level.split = layout::Split::kShares;
    for (Index c = 0; c < n; ++c) level.shares.push_back(random.between(0, 2));
    level.shares[static_cast<std::size_t>(random.between(0, n - 1))] += 1;
    if (random.chance(20)) level.unit = 2;
  } else if (way == "repeat") {
    level.fallback = Fallback::kRepeat;
    level.unit = std::max(length / random.one_of<Index>({1, 2, 2, 3, 4}), Index{1});
  } else if (way == "replicate") {
    level.fallback = Fallback::kReplicate;
    if (random.chance(30)) level.split = layout::Split::kBalanced;
    if (random.chance(30)) level.unit = 2;
  } else if (way == "zigzag") {
    level.layout = layout::SequenceLayout::kZigzag;
  } else if (way == "striped") {
    level.layout = layout::SequenceLayout::kStriped;
    level.block = random.between(1, 2);
  } else if (way == "packed") {
    draw_packed(random, length, level, seen);
  } else if (way == "pad_total") {
    cut.pad_total = random.one_of<Index>({2, 3, 4, 8});
  } else if (way == "padding") {
    if (random.chance(60))
      level.pad_to = random.between(1, 4);
    else
      level.pad_rows = random.chance(50) ? (n - length % n) % n + n * random.between(0, 1) : random.between(0, 6);
    seen.insert(level.pad_to ? "pad_to" : "pad_rows");
  }
}

const std::vector<std::string> kWays = {"plain",    "plain",   "segments", "stride",    "unit",
                                        "balanced", "chunk",   "shares",   "repeat",    "replicate",
                                        "zigzag",   "striped", "packed",   "pad_total", "padding"};

}  // namespace

DimCut draw_dim(Random& random, Index length, const std::vector<layout::Axis>& axes, const std::string& wish,
                std::set<std::string>& seen) {
  DimCut cut;
  for (const layout::Axis& axis : axes) {
    Level& level = cut.levels.emplace_back();
    level.axis = axis.name;
    level.axis_size = axis.size;
  }
  const bool wished = std::find(kWays.begin(), kWays.end(), wish) != kWays.end() && random.chance(70);
  const std::string first = wished ? wish : random.one_of(kWays);
  draw_way(random, first, length, cut.levels.front(), cut, seen);
  for (std::size_t i = 1; i < cut.levels.size(); ++i) {
    const bool last = i + 1 == cut.levels.size();
    if (last && random.chance(35))
      draw_way(random, "padding", length, cut.levels[i], cut, seen);
    else if (random.chance(15) && !cut.levels.front().packed)
      draw_way(random, random.one_of<std::string>({"balanced", "chunk", "stride", "replicate", "zigzag"}), length,
               cut.levels[i], cut, seen);
  }
  if (random.chance(wish == "fill last" ? 80 : 20)) {
    cut.fill = layout::Fill::kLast;
    if (cut.pad_total || cut.levels.back().pad_to || cut.levels.back().pad_rows) seen.insert("fill last");
  }
  Index cutting = 0;
  for (const layout::Axis& axis : axes) cutting += axis.size > 1 ? 1 : 0;
  if (cutting > 1) seen.insert("several axes");
  if (cutting > 1 && first == "packed") seen.insert("packed with inner axis");
  return cut;
}

namespace {

Side draw_side(Random& random, const Shape& shape, const std::string& wish, std::set<std::string>& seen) {
  Side out;
  std::vector<std::string> names = {"dp", "tp", "gtp", "cp", "ep"};
  random.shuffle(names);
  names.resize(static_cast<std::size_t>(random.between(1, 3)));
  Index world = 1;
  for (const std::string& name : names) {
    Index size = random.one_of<Index>({1, 2, 2, 2, 3, 4});
    if (world * size > 12) size = 1;
    world *= size;
    out.axes.push_back({name, size});
    if (size == 1) seen.insert("axis of size 1");
  }
  std::vector<std::vector<layout::Axis>> by_dim(shape.size());
  std::vector<layout::Axis> shuffled = out.axes;
  random.shuffle(shuffled);
  for (const layout::Axis& axis : shuffled) {
    if (!shape.empty() && random.chance(85))
      by_dim[static_cast<std::size_t>(random.between(0, static_cast<Index>(shape.size()) - 1))].push_back(axis);
    else if (axis.size > 1)
      seen.insert("replicas");
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    // A plan may name an axis that only the other side has: size 1 here.
    if (by_dim[d].empty() && random.chance(wish == "one-sided axis" ? 60 : 10)) {
      by_dim[d].push_back({"elsewhere", 1});
      seen.insert("one-sided axis");
    }
    out.cut.dims.push_back(by_dim[d].empty() ? DimCut{} : draw_dim(random, shape[d], by_dim[d], wish, seen));
  }
  if (random.chance(wish == "ranks" ? 70 : 15)) {
    for (Index rank = 0; rank < world; ++rank) out.ranks.push_back(rank);
    random.shuffle(out.ranks);
    seen.insert("ranks");
  }
  return out;
}

}  // namespace

DimCut in_steps_of(DimCut cut, Index k) {
  if (cut.pad_total) *cut.pad_total *= k;
  for (std::size_t i = 0; i < cut.levels.size(); ++i) {
    Level& level = cut.levels[i];
    const bool plain =
        level.layout == SequenceLayout::kContiguous && !level.pad_to && !level.pad_rows && i == 0 && !cut.pad_total;
    if (plain && (level.split != Split::kEven || level.unit > 1 || level.fallback == Fallback::kRepeat))
      level.unit *= k;
    if (level.layout == SequenceLayout::kStriped) level.block *= k;
    if (level.pad_to) *level.pad_to *= k;
    if (level.pad_rows) *level.pad_rows *= k;
    for (Segment& segment : level.segments) {
      segment.size *= k;
      if (segment.unit) *segment.unit *= k;
    }
    if (level.packed)
      for (std::vector<Index>* boundaries : {&level.packed->cu_seqlens, &level.packed->cu_seqlens_padded})
        for (Index& boundary : *boundaries) boundary *= k;
  }
  return cut;
}

std::string describe(const DimCut& cut) {
  std::string out;
  for (const Level& level : cut.levels) {
    out += fmt::format(" [{}={}", level.axis, level.axis_size);
    if (level.unit != 1) out += fmt::format(" unit {}", level.unit);
    for (const layout::Segment& s : level.segments)
      out += fmt::format(" segment {}/{}{}", s.size, s.unit.value_or(0), s.fallback ? " repeat" : "");
    if (level.stride != 1) out += fmt::format(" stride {}", level.stride);
    if (level.split != layout::Split::kEven) out += fmt::format(" split {}", static_cast<int>(level.split));
    if (!level.shares.empty()) out += fmt::format(" shares {}", fmt::join(level.shares, ","));
    if (level.fallback != Fallback::kError) out += level.fallback == Fallback::kRepeat ? " repeat" : " replicate";
    if (level.layout == layout::SequenceLayout::kZigzag) out += " zigzag";
    if (level.layout == layout::SequenceLayout::kStriped) out += fmt::format(" striped {}", level.block);
    if (level.packed)
      out += fmt::format(" packed {} padded {}{}", fmt::join(level.packed->cu_seqlens, ","),
                         fmt::join(level.packed->cu_seqlens_padded, ","),
                         level.packed_padding == layout::PackedPadding::kForbid ? " forbid" : "");
    if (level.pad_to) out += fmt::format(" pad_to {}", *level.pad_to);
    if (level.pad_rows) out += fmt::format(" pad_rows {}", *level.pad_rows);
    out += "]";
  }
  if (cut.pad_total) out += fmt::format(" pad_total {}", *cut.pad_total);
  if (cut.fill == layout::Fill::kLast) out += " fill last";
  return out.empty() ? " whole" : out;
}

const std::vector<std::string>& features() {
  static const std::vector<std::string> all = {"segments",
                                               "segment options",
                                               "stride",
                                               "unit",
                                               "balanced",
                                               "chunk",
                                               "shares",
                                               "repeat",
                                               "replicate",
                                               "zigzag",
                                               "striped",
                                               "packed",
                                               "packed with inner axis",
                                               "pad_to",
                                               "pad_rows",
                                               "pad_total",
                                               "fill last",
                                               "axis of size 1",
                                               "replicas",
                                               "ranks",
                                               "one-sided axis",
                                               "several axes"};
  return all;
}

Case draw(Random& random, const std::string& wish) {
  Case out;
  const Index dims = random.one_of<Index>({0, 1, 1, 1, 1, 2, 2, 2, 3});
  Index elements = 1;
  for (Index d = 0; d < dims; ++d) {
    Index length = random.one_of(kLengths);
    if (length * elements > 1500) length = random.between(1, 3);
    elements *= std::max(length, Index{1});
    out.shape.push_back(length);
  }
  const std::string way = wish == "pad_to" || wish == "pad_rows" ? "padding"
                          : wish == "segment options"            ? "segments"
                                                                 : wish;
  out.source = draw_side(random, out.shape, way, out.features);
  out.target = draw_side(random, out.shape, way, out.features);
  return out;
}

std::string describe(const Case& c) {
  std::string out = fmt::format("shape [{}]", fmt::join(c.shape, ", "));
  for (const auto& [name, side] : {std::pair("source", &c.source), std::pair("target", &c.target)}) {
    out += fmt::format("\n{}:", name);
    for (const layout::Axis& axis : side->axes) out += fmt::format(" {}={}", axis.name, axis.size);
    if (!side->ranks.empty()) out += fmt::format(" ranks {}", fmt::join(side->ranks, ","));
    for (std::size_t d = 0; d < side->cut.dims.size(); ++d)
      out += fmt::format("\n  {}:{}", d, describe(side->cut.dims[d]));
  }
  return out;
}

}  // namespace reshard::random_layouts
