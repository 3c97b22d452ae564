#include "reshard/layout/axis_cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <numeric>
#include <string>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/layout/sequence.hpp"

namespace reshard::layout {
namespace {

// A plan of one line must not make more runs than memory holds: blocks of 1 over 2^40 elements would.
constexpr Index kMaxRuns = Index{1} << 24;

// What a line must be a multiple of so that these levels cut it evenly; 1 where they take any length, or fixed ones.
// Example: axes [tp=4, ep=2] behind cp: 8; a padded axis takes any length: 1.
Index even_multiple(std::span<const Level> levels) {
  if (levels.empty()) return 1;
  const Level& level = levels.front();
  const Index n = level.axis_size;
  const bool padded = level.pad_to || level.pad_rows;
  if (n > 1 && (padded || level.split != Split::kEven || !level.segments.empty())) return 1;
  const Index behind = even_multiple(levels.subspan(1));
  if (n == 1) return behind;
  const Index pieces = level.layout == SequenceLayout::kZigzag    ? 2
                       : level.layout == SequenceLayout::kStriped ? level.block
                                                                  : checked_mul(level.unit, level.stride);
  const Index together = checked_mul(pieces / std::gcd(pieces, behind), behind);
  return checked_mul(n, together);
}

std::string axis_text(const Level& level) {
  return fmt::format("axis '{}' of size {}", level.axis, level.axis_size);
}

Refusal refusal_of(ErrorCode code, std::string message) {
  return Refusal{code, std::move(message), false};
}

}  // namespace

std::optional<Refusal> multiple_refusal(const Level& level, std::string_view option, Index number) {
  Index multiple = 0;
  if (!__builtin_mul_overflow(number, level.axis_size, &multiple)) return std::nullopt;
  return refusal_of(ErrorCode::kOverflow, fmt::format("{}: {} {} x {} does not fit 63 bits", axis_text(level), option,
                                                      number, level.axis_size));
}

AxisCut::AxisCut(std::span<const Level> levels, Fill fill)
    : level_(levels.front()), fill_(fill), inner_multiple_(level_.packed ? even_multiple(levels.subspan(1)) : 1) {}

std::optional<Refusal> AxisCut::option_refusal() const {
  const bool parts = level_.unit != 1 || !level_.segments.empty() || level_.stride != 1 || level_.split != Split::kEven;
  const bool padded = level_.pad_to || level_.pad_rows;
  const auto exclusive = [&](const char* what) {
    return refusal_of(ErrorCode::kSchema, fmt::format("axis '{}': {}", level_.axis, what));
  };
  if (!level_.segments.empty() && level_.stride != 1) return exclusive("'segments' and 'stride' exclude each other");
  if (level_.pad_to && level_.pad_rows) return exclusive("'pad_to' and 'pad_rows' exclude each other");
  if (padded && (parts || is_sequence() || level_.packed))
    return exclusive("padding excludes 'unit', 'segments', 'stride', 'split' and 'layout' on the same axis");
  if ((is_sequence() || level_.packed) && parts)
    return exclusive("'layout' and 'packed' exclude 'unit', 'segments', 'stride' and 'split' on the same axis");
  if (level_.packed && level_.layout == SequenceLayout::kStriped)
    return exclusive("packed sequences can be 'contiguous' or 'zigzag', not 'striped'");
  if (level_.unit < 1) return exclusive("'unit' must be 1 or more");
  if (level_.block < 1) return exclusive("'block' must be 1 or more");
  if (level_.stride < 1)
    return refusal_of(ErrorCode::kStride,
                      fmt::format("axis '{}': stride {}, expected 1 or more", level_.axis, level_.stride));
  for (std::size_t i = 0; i < level_.segments.size(); ++i) {
    const Segment& segment = level_.segments[i];
    if (segment.size < 1)
      return refusal_of(ErrorCode::kSegmentSum, fmt::format("axis '{}': segment {} has size {}, expected 1 or more",
                                                            level_.axis, i, segment.size));
    if (segment.unit && *segment.unit < 1)
      return refusal_of(ErrorCode::kSchema, fmt::format("axis '{}': segment {} has unit {}, expected 1 or more",
                                                        level_.axis, i, *segment.unit));
  }
  if (level_.pad_to && *level_.pad_to < 1)
    return refusal_of(ErrorCode::kPad,
                      fmt::format("axis '{}': pad_to {}, expected 1 or more", level_.axis, *level_.pad_to));
  if (level_.pad_rows && *level_.pad_rows < 0)
    return refusal_of(ErrorCode::kPad,
                      fmt::format("axis '{}': pad_rows {}, expected 0 or more", level_.axis, *level_.pad_rows));
  const bool striped = level_.layout == SequenceLayout::kStriped;
  for (const auto& [option, number] : std::initializer_list<std::pair<std::string_view, Index>>{
           {"pad_to", level_.pad_to.value_or(1)}, {"stride", level_.stride}, {"block", striped ? level_.block : 1}})
    if (auto refused = multiple_refusal(level_, option, number)) return refused;
  if (level_.split == Split::kShares) {
    Index sum = 0;
    for (const Index share : level_.shares) {
      if (share < 0)
        return refusal_of(ErrorCode::kSchema,
                          fmt::format("axis '{}': share {}, expected 0 or more", level_.axis, share));
      sum = checked_add(sum, share);
    }
    if (sum == 0) return exclusive("the shares sum to 0");
    // Over one coordinate shares written for the other side's axis cut nothing.
    if (level_.axis_size > 1 && static_cast<Index>(level_.shares.size()) != level_.axis_size)
      return refusal_of(ErrorCode::kOwner, fmt::format("{} has {} shares, expected one per coordinate",
                                                       axis_text(level_), level_.shares.size()));
  }
  return std::nullopt;
}

std::vector<AxisCut::Part> AxisCut::parts(Index length) const {
  std::vector<Part> out;
  if (level_.segments.empty()) {
    const Index size = length / level_.stride;
    for (Index i = 0; i < level_.stride; ++i) out.push_back({i * size, size, level_.unit, level_.fallback});
    return out;
  }
  Index begin = 0;
  for (const Segment& segment : level_.segments) {
    out.push_back(
        {begin, segment.size, segment.unit.value_or(level_.unit), segment.fallback.value_or(level_.fallback)});
    begin = checked_add(begin, segment.size);
  }
  return out;
}

Index AxisCut::padding(Index length) const {
  if (level_.pad_rows) return *level_.pad_rows;
  // Example: 1160 rows, pad_to 16, 4 coordinates: 1160 mod 64 = 8, so 56 rows.
  const Index align = checked_mul(*level_.pad_to, level_.axis_size);
  return (align - length % align) % align;
}

std::optional<Refusal> AxisCut::refusal(Index length) const {
  const Index n = level_.axis_size;
  if (level_.packed)
    if (auto refused = packed_refusal(*level_.packed, length)) return refused;
  if (is_sequence()) {
    if (n == 1) return std::nullopt;
    if (level_.packed) {
      const auto sequences = static_cast<Index>(level_.packed->cu_seqlens.size());
      if (auto refused = runs_refusal(checked_mul(sequences, 2 * n))) return refused;
      auto refused = packed_zigzag_refusal(*level_.packed, level_.packed_padding, n, inner_multiple_);
      if (refused) refused->message = fmt::format("{}: {}", axis_text(level_), refused->message);
      return refused;
    }
    const bool zigzag = level_.layout == SequenceLayout::kZigzag;
    const Index multiple = checked_mul(zigzag ? 2 : level_.block, n);
    if (length % multiple == 0) return zigzag ? std::nullopt : runs_refusal(length / level_.block);
    return refusal_of(ErrorCode::kSeqLayout,
                      fmt::format("{} ({}) cannot cut {} elements: not a multiple of {} x {} = {}", axis_text(level_),
                                  zigzag ? "zigzag" : "striped", length, zigzag ? 2 : level_.block, n, multiple));
  }
  if (level_.pad_to || level_.pad_rows) {
    if (!is_padded()) return std::nullopt;
    const Index pad = padding(length);
    const Index rest = checked_add(length, pad) % n;
    if (rest == 0) return std::nullopt;
    return refusal_of(
        ErrorCode::kPad,
        fmt::format("{} cannot cut {} elements and {} of padding: {} is not a multiple of {}; pad_rows {} would do",
                    axis_text(level_), length, pad, length + pad, n, checked_add(pad, n - rest)));
  }
  if (level_.stride > 1) {
    const Index multiple = checked_mul(level_.stride, n);
    if (auto refused = runs_refusal(multiple)) return refused;
    if (length % multiple != 0)
      return refusal_of(ErrorCode::kStride,
                        fmt::format("{} cannot cut {} elements with stride {}: not a multiple of {} x {} = {}",
                                    axis_text(level_), length, level_.stride, level_.stride, n, multiple));
  }
  if (!level_.segments.empty()) {
    if (auto refused = runs_refusal(checked_mul(static_cast<Index>(level_.segments.size()), n))) return refused;
    Index sum = 0;
    for (const Segment& segment : level_.segments) sum = checked_add(sum, segment.size);
    if (sum != length)
      return refusal_of(ErrorCode::kSegmentSum,
                        fmt::format("the segments of axis '{}' sum to {}, expected {}, the length "
                                    "of the line they cut",
                                    level_.axis, sum, length));
  }
  if (level_.segments.empty())
    return part_refusal({0, length / level_.stride, level_.unit, level_.fallback},
                        0);  // equal parts: one speaks for all
  const std::vector<Part> all = parts(length);
  std::optional<Refusal> fall_back;
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto refused = part_refusal(all[i], i);
    if (refused && !refused->may_fall_back) return refused;
    if (refused && !fall_back) fall_back = std::move(refused);
  }
  return fall_back;
}

std::optional<Refusal> AxisCut::runs_refusal(Index runs) const {
  if (runs <= kMaxRuns) return std::nullopt;
  return refusal_of(ErrorCode::kUnsupported,
                    fmt::format("{} would cut a dim into {} runs, more than {}", axis_text(level_), runs, kMaxRuns));
}

std::optional<Refusal> AxisCut::part_refusal(const Part& part, std::size_t number) const {
  const Index n = level_.axis_size;
  const std::string counted_elements = fmt::format(
      "the {} elements{}", part.size, level_.segments.empty() ? std::string() : fmt::format(" of segment {}", number));
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    const bool may_fall_back =
        part.fallback == Fallback::kReplicate && (code == ErrorCode::kIndivisible || code == ErrorCode::kEmptyShard);
    return Refusal{code, fmt::format("{} cannot cut {}: {}", axis_text(level_), counted_elements, why), may_fall_back};
  };
  const Index units = ceil_div(part.size, part.unit);
  const std::string counted = part.unit == 1 ? std::to_string(units) : fmt::format("{} units of {}", units, part.unit);
  switch (level_.split) {
    case Split::kEven:
      if (const Index rest = part.size % part.unit; rest != 0)  // whatever the size of the axis, also where it is 1
        return Refusal{
            ErrorCode::kIndivisible,
            fmt::format("{} that axis '{}' cuts are no whole number of units of {} ({} x {} + {}); legal lengths are "
                        "multiples of {}",
                        counted_elements, level_.axis, part.unit, part.size / part.unit, part.unit, rest, part.unit),
            part.fallback == Fallback::kReplicate};
      if (part.fallback == Fallback::kRepeat && units > 0 && units < n) {
        if (n % units == 0) return std::nullopt;
        return refuse(ErrorCode::kRepeat,
                      fmt::format("{} is not a multiple of {}, so the units cannot be repeated equally", n, counted));
      }
      if (units % n != 0) return refuse(ErrorCode::kIndivisible, fmt::format("{} is not a multiple of {}", counted, n));
      return std::nullopt;
    case Split::kBalanced:
      if (n > 1 && units < n)
        return refuse(ErrorCode::kEmptyShard, fmt::format("{} over {} coordinates would leave some empty", counted, n));
      return std::nullopt;
    case Split::kChunk:
      return std::nullopt;
    case Split::kShares: {
      if (static_cast<Index>(level_.shares.size()) != n) return std::nullopt;  // n = 1: cuts nothing
      const Index sum = std::accumulate(level_.shares.begin(), level_.shares.end(), Index{0});
      if (units % sum != 0)
        return refuse(ErrorCode::kIndivisible,
                      fmt::format("{} is not a multiple of {}, the sum of the shares", counted, sum));
      return std::nullopt;
    }
  }
  return std::nullopt;
}

AxisCut::Extent AxisCut::extent(const Part& part, Index c) const {
  const Index n = level_.axis_size;
  const Index units = ceil_div(part.size, part.unit);
  Index first = 0;
  Index last = units;
  switch (level_.split) {
    case Split::kEven:
      if (part.fallback == Fallback::kRepeat && units > 0 && units < n) {
        first = c * units / n;
        last = first + 1;
      } else {
        first = c * (units / n);
        last = first + units / n;
      }
      break;
    case Split::kBalanced:
      // Example: 10 units over 4: 3, 3, 2, 2, so coordinate 2 starts at 2 * 2 + 2 = 6.
      first = c * (units / n) + std::min(c, units % n);
      last = first + units / n + (c < units % n ? 1 : 0);
      break;
    case Split::kChunk: {
      const Index each = ceil_div(units, n);
      first = std::min(checked_mul(c, each), units);
      last = std::min(checked_add(first, each), units);
      break;
    }
    case Split::kShares: {
      if (static_cast<Index>(level_.shares.size()) != n) break;
      const auto share = level_.shares.begin();
      const Index before = std::accumulate(share, share + c, Index{0});
      const Index sum = std::accumulate(share + c, level_.shares.end(), before);
      first = before * (units / sum);
      last = first + share[c] * (units / sum);
      break;
    }
  }
  // The last unit of a part may be short, so positions are clipped before they are multiplied out.
  const auto position = [&](Index unit) { return unit >= units ? part.size : unit * part.unit; };
  return {part.begin + position(first), part.begin + position(last)};
}

Index AxisCut::part_length(Index length, Index c) const {
  const Index n = level_.axis_size;
  if (is_padded()) return (length + padding(length)) / n;
  if (is_sequence()) {
    if (n == 1 || !level_.packed) return length / n;
    const std::vector<Index> padded = padded_lengths(*level_.packed, n, inner_multiple_);
    return std::accumulate(padded.begin(), padded.end(), Index{0}) / n;
  }
  if (level_.segments.empty()) {
    const Extent one = extent({0, length / level_.stride, level_.unit, level_.fallback}, c);
    return (one.end - one.begin) * level_.stride;
  }
  Index out = 0;
  for (const Part& part : parts(length)) {
    const Extent held = extent(part, c);
    out += held.end - held.begin;
  }
  return out;
}

Line AxisCut::take(const Line& line, Index c) const {
  const Index n = level_.axis_size;
  if (is_padded()) {
    const Index width = (line.length() + padding(line.length())) / n;
    Line out;
    const Index begin = std::min(c * width, line.length());
    const Index end = std::min((c + 1) * width, line.length());
    out.append(line, begin, end);
    out.append(Pad{0, width - (end - begin), fill_ == Fill::kLast ? line.last_element() : std::nullopt, false});
    return out;
  }
  if (is_sequence() && n > 1) {
    if (level_.packed) return take_packed_zigzag(line, *level_.packed, n, inner_multiple_, c);
    if (level_.layout == SequenceLayout::kZigzag) return take_zigzag(line, n, c);
    return take_striped(line, n, level_.block, c);
  }
  if (n == 1) return line;
  Line out;
  for (const Part& part : parts(line.length())) {
    const Extent held = extent(part, c);
    out.append(line, held.begin, held.end);
  }
  return out;
}

}  // namespace reshard::layout
