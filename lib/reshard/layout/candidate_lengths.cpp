#include "reshard/layout/candidate_lengths.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reshard/base/checked.hpp"

namespace reshard::layout {
namespace {

constexpr std::size_t kMaxProgressions = 64;  // beyond them, candidates are all lengths between their ends

using Candidates = std::optional<std::vector<Progression>>;  // nothing: any length

bool holds(const std::vector<Progression>& set, Index x) {
  return std::any_of(set.begin(), set.end(),
                     [&](const Progression& p) { return p.first <= x && x <= p.last && (x - p.first) % p.step == 0; });
}

Progression hull(const std::vector<Progression>& set) {
  Progression out{set.front().first, set.front().last, 1};
  for (const Progression& p : set) {
    out.first = std::min(out.first, p.first);
    out.last = std::max(out.last, p.last);
  }
  return out;
}

// The same set without repetitions, or all between its ends where it is too many pieces.
std::vector<Progression> simplified(std::vector<Progression> set) {
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  if (set.size() > kMaxProgressions) return {hull(set)};
  return set;
}

// A superset of what both hold: the shorter of two progressions that overlap, cut to the overlap. The lengths that come
// out are probed one by one later, so that a few too many do no harm.
std::vector<Progression> intersect(const std::vector<Progression>& a, const std::vector<Progression>& b) {
  std::vector<Progression> out;
  for (const Progression& p : a)
    for (const Progression& q : b) {
      const Progression& coarse = p.step >= q.step ? p : q;
      const Progression& fine = p.step >= q.step ? q : p;
      const Index skipped = std::max(ceil_div(std::max(fine.first - coarse.first, Index{0}), coarse.step), Index{0});
      const Index first = coarse.first + skipped * coarse.step;
      const Index limit = std::min(coarse.last, fine.last);
      if (first > limit) continue;
      out.push_back({first, first + (limit - first) / coarse.step * coarse.step, coarse.step});
    }
  return simplified(std::move(out));
}

// Works from the stored lengths of the innermost level outwards to the lengths of the line that a dim starts as.
class CandidateFinder {
 public:
  CandidateFinder(const DimCut& cut, std::span<const Index> by_tuple) : cut_(cut), by_tuple_(by_tuple) {}

  CandidateLengths find() {
    std::size_t next = 0;
    found_.lengths = line_before(0, next);
    if (!found_.lengths || !cut_.pad_total) return std::move(found_);
    const Index align = checked_mul(*cut_.pad_total, cut_.levels.empty() ? 1 : cut_.levels.front().axis_size);
    for (Progression& p : *found_.lengths) p = {std::max(p.first - align + 1, Index{0}), p.last, 1};
    return std::move(found_);
  }

 private:
  // Lengths of the line before level `i` takes its part; `next` is the first tuple behind it, row-major.
  Candidates line_before(std::size_t i, std::size_t& next) {
    if (i == cut_.levels.size()) {
      const Index stored = by_tuple_[next++];
      if (stored == kAbsent) return std::nullopt;
      return std::vector<Progression>{{stored, stored, 1}};
    }
    const Level& level = cut_.levels[i];
    std::vector<Candidates> parts;
    for (Index c = 0; c < level.axis_size; ++c) parts.push_back(line_before(i + 1, next));
    if (level.axis_size == 1) return parts.front();
    if (!level.segments.empty()) {
      Index sum = 0;
      for (const Segment& segment : level.segments) sum = checked_add(sum, segment.size);
      return std::vector<Progression>{{sum, sum, 1}};
    }
    if (level.packed) {
      const Index total = physical_total(*level.packed);
      return std::vector<Progression>{{total, total, 1}};
    }
    Candidates same;  // lengths that every part may have
    for (const Candidates& part : parts)
      if (part) same = same ? intersect(*same, *part) : *part;
    if (level.split != Split::kEven) return uneven(level, parts, same);
    if (!same) {
      found_.open = true;
      return std::nullopt;
    }
    return even(level, *same);
  }

  // Every coordinate stores the same length, one of `part`.
  std::vector<Progression> even(const Level& level, const std::vector<Progression>& part) {
    const Index n = level.axis_size;
    std::vector<Progression> out;
    for (const Progression& p : part) {
      const Progression sum{checked_mul(n, p.first), checked_mul(n, p.last), checked_mul(n, p.step)};
      if (level.pad_to) {
        const Index align = checked_mul(*level.pad_to, n);
        out.push_back({std::max(sum.first - align + 1, Index{0}), sum.last, 1});
      } else if (level.pad_rows) {
        if (sum.last <= *level.pad_rows) found_.padding_exceeds = true;
        const Index short_by = std::max(*level.pad_rows - sum.first, Index{0});
        const Index first = sum.first + ceil_div(short_by, sum.step) * sum.step;
        if (first <= sum.last) out.push_back({first - *level.pad_rows, sum.last - *level.pad_rows, sum.step});
      } else {
        out.push_back(sum);
      }
    }
    if (level.fallback == Fallback::kRepeat) {
      // Fewer units than coordinates: each holds one unit (of every strided part), whatever their number.
      const Index unit = checked_mul(level.unit, level.stride);
      if (holds(part, unit))
        for (Index units = 1; units < n; ++units)
          if (n % units == 0) out.push_back({units * unit, units * unit, 1});
    }
    if (level.fallback == Fallback::kReplicate) out.insert(out.end(), part.begin(), part.end());
    return simplified(std::move(out));
  }

  Candidates uneven(const Level& level, const std::vector<Candidates>& parts, const Candidates& same) {
    Progression sum{0, 0, 1};
    for (const Candidates& part : parts) {
      if (!part) {
        found_.open = true;
        return std::nullopt;
      }
      if (part->empty()) return std::vector<Progression>{};
      const Progression ends = hull(*part);
      sum = {checked_add(sum.first, ends.first), checked_add(sum.last, ends.last), 1};
    }
    std::vector<Progression> out = {sum};
    if (level.fallback == Fallback::kReplicate && same) out.insert(out.end(), same->begin(), same->end());
    return simplified(std::move(out));
  }

  static Index physical_total(const PackedSequences& packed) {
    return packed.cu_seqlens_padded.empty() ? packed.cu_seqlens.back() : packed.cu_seqlens_padded.back();
  }

  const DimCut& cut_;
  std::span<const Index> by_tuple_;
  CandidateLengths found_;
};

}  // namespace

CandidateLengths candidate_lengths(const DimCut& cut, std::span<const Index> by_tuple) {
  return CandidateFinder(cut, by_tuple).find();
}

}  // namespace reshard::layout
