#include "reshard/planner/joined.hpp"

#include <algorithm>

namespace reshard::planner {
namespace {

/// A padding index that repeats a true one.
struct PadCopy {
  Index global = 0;
  std::int32_t part = 0;
  Index stored = 0;
};

std::vector<PadCopy> pad_copies(const layout::DimLayout& target) {
  std::vector<PadCopy> out;
  for (std::size_t part = 0; part < target.parts.size(); ++part)
    for (const layout::Pad& pad : target.parts[part].pads)
      if (pad.copy_of)
        for (Index i = 0; i < pad.length; ++i)
          out.push_back({*pad.copy_of, static_cast<std::int32_t>(part), pad.stored + i});
  std::sort(out.begin(), out.end(), [](const PadCopy& a, const PadCopy& b) { return a.global < b.global; });
  return out;
}

}  // namespace

std::vector<JoinedRange> join_dim(const std::vector<HeldRange>& source_ranges, const layout::DimLayout& target) {
  const std::vector<HeldRange> target_ranges = held_ranges(target);
  const std::vector<PadCopy> copies = pad_copies(target);

  std::vector<Index> cuts;
  for (const HeldRange& range : source_ranges) cuts.insert(cuts.end(), {range.global, range.global + range.length});
  for (const HeldRange& range : target_ranges) cuts.insert(cuts.end(), {range.global, range.global + range.length});
  for (const PadCopy& copy : copies) cuts.insert(cuts.end(), {copy.global, copy.global + 1});
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  std::vector<JoinedRange> out;
  std::size_t s = 0;
  std::size_t t = 0;
  std::size_t c = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const Index begin = cuts[i];
    while (s < source_ranges.size() && source_ranges[s].global + source_ranges[s].length <= begin) ++s;
    while (t < target_ranges.size() && target_ranges[t].global + target_ranges[t].length <= begin) ++t;
    while (c < copies.size() && copies[c].global < begin) ++c;
    if (s == source_ranges.size() || source_ranges[s].global > begin) continue;

    JoinedRange range{begin, cuts[i + 1] - begin, s, source_ranges[s].holders, {}};
    for (Holding& holding : range.sources) holding.stored += begin - source_ranges[s].global;
    if (t < target_ranges.size() && target_ranges[t].global <= begin)
      for (const Holding& holding : target_ranges[t].holders)
        range.targets.push_back(
            {holding.part, holding.stored + begin - target_ranges[t].global, range.targets.empty()});
    for (; c < copies.size() && copies[c].global == begin; ++c)
      range.targets.push_back({copies[c].part, copies[c].stored, false});
    if (!range.targets.empty()) out.push_back(std::move(range));
  }
  for (std::size_t part = 0; part < target.parts.size(); ++part)
    for (const layout::Pad& pad : target.parts[part].pads)
      if (pad.temporary) out.push_back({0, pad.length, 0, {}, {{static_cast<std::int32_t>(part), pad.stored, false}}});
  return out;
}

}  // namespace reshard::planner
