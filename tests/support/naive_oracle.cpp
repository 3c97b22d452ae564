#include "support/naive_oracle.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace reshard::naive {
namespace {

using layout::DimCut;
using layout::Fallback;
using layout::Fill;
using layout::Level;
using layout::SequenceLayout;
using layout::Split;

struct Refused {
  ErrorCode code;
  bool may_fall_back = false;
};

Index size_of(const Line& line) {
  return static_cast<Index>(line.size());
}

void append(Line& out, const Line& from, Index begin, Index end) {
  for (Index i = begin; i < end; ++i) out.push_back(from.at(static_cast<std::size_t>(i)));
}

// The padding that fills up a line.
Cell filler(const Line& line, Fill fill) {
  Cell out;
  if (fill == Fill::kLast)
    for (const Cell& cell : line)
      if (cell.global != kPadding) out.copy_of = cell.global;
  return out;
}

Line take_part(const Line& part, const Level& level, Index unit, Fallback fallback, Index n, Index c) {
  const Index length = size_of(part);
  const bool replicate = fallback == Fallback::kReplicate;
  std::vector<Line> units;  // the last one may be short
  for (Index i = 0; i < length; ++i) {
    if (i % unit == 0) units.emplace_back();
    units.back().push_back(part[static_cast<std::size_t>(i)]);
  }
  const auto count = static_cast<Index>(units.size());
  Line out;
  if (level.split == Split::kEven) {
    if (length % unit != 0) throw Refused{ErrorCode::kIndivisible, replicate};
    if (fallback == Fallback::kRepeat && count > 0 && count < n) {
      if (n % count != 0) throw Refused{ErrorCode::kRepeat};
      return units[static_cast<std::size_t>(c / (n / count))];
    }
    if (count % n != 0) throw Refused{ErrorCode::kIndivisible, replicate};
    for (Index u = 0; u < count; ++u)
      if (u / (count / n) == c)
        append(out, units[static_cast<std::size_t>(u)], 0, size_of(units[static_cast<std::size_t>(u)]));
    return out;
  }
  std::vector<Index> owner;  // of each unit
  if (level.split == Split::kBalanced) {
    if (n > 1 && count < n) throw Refused{ErrorCode::kEmptyShard, replicate};  // an axis of size 1 cuts nothing
    for (Index k = 0; k < n; ++k)
      for (Index j = 0; j < count / n + (k < count % n ? 1 : 0); ++j) owner.push_back(k);
  } else if (level.split == Split::kChunk) {
    Index each = 0;
    while (each * n < count) ++each;
    for (Index u = 0; u < count; ++u) owner.push_back(u / each);
  } else {
    Index sum = 0;
    for (const Index share : level.shares) sum += share;
    if (static_cast<Index>(level.shares.size()) != n) return part;
    if (count % sum != 0) throw Refused{ErrorCode::kIndivisible, replicate};
    for (Index k = 0; k < n; ++k)
      for (Index j = 0; j < level.shares[static_cast<std::size_t>(k)] * (count / sum); ++j) owner.push_back(k);
  }
  for (Index u = 0; u < count; ++u)
    if (owner.at(static_cast<std::size_t>(u)) == c)
      append(out, units[static_cast<std::size_t>(u)], 0, size_of(units[static_cast<std::size_t>(u)]));
  return out;
}

Line take(const Line& line, std::span<const Level> levels, Fill fill, Index c);

// Whether the levels behind a packed one can cut a stream of this length. A padded one says itself what it adds.
bool can_cut(std::span<const Level> levels, Index length) {
  if (levels.empty() || (levels.front().axis_size > 1 && (levels.front().pad_to || levels.front().pad_rows)))
    return true;
  Line line(static_cast<std::size_t>(length));
  for (Index i = 0; i < length; ++i) line[static_cast<std::size_t>(i)].global = i;
  try {
    const Line part = take(line, levels, Fill::kZero, 0);
    return can_cut(levels.subspan(1), size_of(part));
  } catch (const Refused&) {
    return false;
  }
}

Line take_packed(const Line& line, std::span<const Level> levels, Index n, Index c) {
  const Level& level = levels.front();
  const auto& packed = *level.packed;
  const std::vector<Index>& starts = packed.cu_seqlens_padded.empty() ? packed.cu_seqlens : packed.cu_seqlens_padded;
  std::vector<Line> sequences;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    Line sequence;
    append(sequence, line, starts[s], starts[s + 1]);
    while (size_of(sequence) % (2 * n) != 0) {
      if (level.packed_padding == layout::PackedPadding::kForbid) throw Refused{ErrorCode::kSeqLayout};
      sequence.push_back({kPadding, kPadding, true});
    }
    sequences.push_back(sequence);
  }
  Index stream = 0;
  for (const Line& sequence : sequences) stream += size_of(sequence) / n;
  for (Index grown = 0; grown < 4096 && !can_cut(levels.subspan(1), stream); grown += 2, stream += 2) {
    if (level.packed_padding == layout::PackedPadding::kForbid) throw Refused{ErrorCode::kSeqLayout};
    for (Index i = 0; i < 2 * n; ++i) sequences.back().push_back({kPadding, kPadding, true});
  }
  Line out;
  for (const Line& sequence : sequences) {
    const Index chunk = size_of(sequence) / (2 * n);
    append(out, sequence, c * chunk, (c + 1) * chunk);
    append(out, sequence, (2 * n - 1 - c) * chunk, (2 * n - c) * chunk);
  }
  return out;
}

Line take(const Line& line, std::span<const Level> levels, Fill fill, Index c) {
  const Level& level = levels.front();
  const Index n = level.axis_size;
  const Index length = size_of(line);
  Line out;
  if (level.packed) {
    const std::vector<Index>& cu = level.packed->cu_seqlens;
    const std::vector<Index>& padded = level.packed->cu_seqlens_padded;
    const Index total = padded.empty() ? (cu.empty() ? 0 : cu.back()) : padded.back();
    if (cu.size() < 2 || total == 0 || total != length) throw Refused{ErrorCode::kSeqLayout};
  }
  if (level.layout != SequenceLayout::kContiguous) {
    if (n == 1) return line;
    if (level.packed) return take_packed(line, levels, n, c);
    const bool zigzag = level.layout == SequenceLayout::kZigzag;
    if (length % (zigzag ? 2 * n : n * level.block) != 0) throw Refused{ErrorCode::kSeqLayout};
    for (Index i = 0; i < length; ++i) {
      const Index chunk = zigzag ? i / (length / (2 * n)) : 0;
      const Index owner = zigzag ? std::min(chunk, 2 * n - 1 - chunk) : i / level.block % n;
      if (owner == c) out.push_back(line[static_cast<std::size_t>(i)]);
    }
    return out;
  }
  if (level.pad_to || level.pad_rows) {
    if (n == 1) return line;
    Line padded = line;
    const Cell cell = filler(line, fill);
    if (level.pad_rows)
      padded.insert(padded.end(), static_cast<std::size_t>(*level.pad_rows), cell);
    else
      while (size_of(padded) % (*level.pad_to * n) != 0) padded.push_back(cell);
    if (size_of(padded) % n != 0) throw Refused{ErrorCode::kPad};
    const Index width = size_of(padded) / n;
    append(out, padded, c * width, (c + 1) * width);
    return out;
  }
  if (level.stride > 1 && length % (level.stride * n) != 0) throw Refused{ErrorCode::kStride};
  std::vector<layout::Segment> segments = level.segments;
  if (segments.empty()) segments.assign(static_cast<std::size_t>(level.stride), {length / level.stride, {}, {}});
  Index begin = 0;
  for (const layout::Segment& segment : segments) begin += segment.size;
  if (begin != length) throw Refused{ErrorCode::kSegmentSum};
  begin = 0;
  std::optional<Refused> fall_back;
  for (const layout::Segment& segment : segments) {
    Line part;
    append(part, line, begin, begin + segment.size);
    begin += segment.size;
    try {
      const Line held =
          take_part(part, level, segment.unit.value_or(level.unit), segment.fallback.value_or(level.fallback), n, c);
      append(out, held, 0, size_of(held));
    } catch (const Refused& refused) {
      if (!refused.may_fall_back) throw;
      fall_back = refused;
    }
  }
  if (fall_back) throw *fall_back;
  return out;
}

// Cuts with the given levels ignored; a fault of level i goes to faults[i].
struct Attempt {
  std::vector<Line> lines;
  std::vector<std::vector<Refused>> faults;
};

void cut_levels(const Line& line, const DimCut& cut, std::size_t i, const std::vector<bool>& ignored, Attempt& out) {
  if (i == cut.levels.size()) {
    out.lines.push_back(line);
    return;
  }
  for (Index c = 0; c < cut.levels[i].axis_size; ++c) {
    Line part = line;
    if (!ignored[i]) {
      try {
        part = take(line, std::span<const Level>(cut.levels).subspan(i), cut.fill, c);
      } catch (const Refused& refused) {
        out.faults[i].push_back(refused);
        continue;
      }
    }
    cut_levels(part, cut, i + 1, ignored, out);
  }
}

}  // namespace

CutDim cut_dim(const DimCut& cut, Index length) {
  Line line(static_cast<std::size_t>(length));
  for (Index i = 0; i < length; ++i) line[static_cast<std::size_t>(i)].global = i;
  if (cut.pad_total) {
    const Cell cell = filler(line, cut.fill);
    const Index n = cut.levels.empty() ? 1 : cut.levels.front().axis_size;
    while (size_of(line) % (*cut.pad_total * n) != 0) line.push_back(cell);
  }
  CutDim out;
  std::vector<bool> ignored(cut.levels.size(), false);
  for (;;) {
    Attempt attempt;
    attempt.faults.resize(cut.levels.size());
    cut_levels(line, cut, 0, ignored, attempt);
    std::size_t i = 0;
    while (i < cut.levels.size() && attempt.faults[i].empty()) ++i;
    if (i == cut.levels.size()) {
      out.lines = std::move(attempt.lines);
      return out;
    }
    // The outermost faulty level decides: it falls back for all coordinates, or refuses.
    for (const Refused& refused : attempt.faults[i])
      if (!refused.may_fall_back) out.faults.insert(refused.code);
    if (!out.faults.empty()) return out;
    ignored[i] = true;
    out.ignored.push_back(cut.levels[i].axis);
  }
}

std::vector<Line> lines_by_rank(const CutDim& dim, const DimCut& cut, const std::vector<layout::Axis>& axes,
                                const std::vector<Index>& ranks) {
  Index world = 1;
  for (const layout::Axis& axis : axes) world *= axis.size;
  std::vector<Line> out(static_cast<std::size_t>(world));
  for (Index position = 0; position < world; ++position) {
    std::size_t tuple = 0;
    for (const Level& level : cut.levels) {
      Index stride = 1;  // ranks between neighbours on the axis
      Index coordinate = 0;
      for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
        if (axis->name == level.axis) coordinate = position / stride % axis->size;
        stride *= axis->size;
      }
      tuple = tuple * static_cast<std::size_t>(level.axis_size) + static_cast<std::size_t>(coordinate);
    }
    const Index rank = ranks.empty() ? position : ranks[static_cast<std::size_t>(position)];
    out[static_cast<std::size_t>(rank)] = dim.lines.at(tuple);
  }
  return out;
}

std::vector<Index> lengths_that_fit(const DimCut& cut, std::span<const Index> stored, Index limit) {
  std::vector<Index> out;
  for (Index length = 0; length <= limit; ++length) {
    const CutDim dim = cut_dim(cut, length);
    if (!dim.faults.empty()) continue;
    bool same = true;
    for (std::size_t i = 0; i < stored.size(); ++i) same = same && size_of(dim.lines[i]) == stored[i];
    if (same) out.push_back(length);
  }
  return out;
}

}  // namespace reshard::naive
