#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "support/plan_cases.hpp"

namespace reshard::plan_cases {
namespace {

using layout::Level;
using Members = std::vector<std::string>;

std::string_view name(layout::Fallback fallback) {
  if (fallback == layout::Fallback::kRepeat) return "repeat";
  return fallback == layout::Fallback::kReplicate ? "replicate" : "error";
}

/// Options that belong to the axis itself, then those that only the first axis of a dim has.
Members options_of(const Level& level) {
  Members out;
  if (level.unit != 1) out.push_back(fmt::format(R"("unit": {})", level.unit));
  if (!level.segments.empty()) {
    Members parts;
    for (const layout::Segment& segment : level.segments) {
      std::string part = std::to_string(segment.size);
      if (segment.unit || segment.fallback) {
        part = fmt::format(R"({{"size": {})", segment.size);
        if (segment.unit) part += fmt::format(R"(, "unit": {})", *segment.unit);
        if (segment.fallback) part += fmt::format(R"(, "fallback": "{}")", name(*segment.fallback));
        part += "}";
      }
      parts.push_back(part);
    }
    out.push_back(fmt::format(R"("segments": [{}])", fmt::join(parts, ", ")));
  }
  if (level.stride != 1) out.push_back(fmt::format(R"("stride": {})", level.stride));
  if (level.split == layout::Split::kBalanced) out.push_back(R"("split": "balanced")");
  if (level.split == layout::Split::kChunk) out.push_back(R"("split": "chunk")");
  if (level.split == layout::Split::kShares)
    out.push_back(fmt::format(R"("split": [{}])", fmt::join(level.shares, ", ")));
  if (level.fallback != layout::Fallback::kError)
    out.push_back(fmt::format(R"("fallback": "{}")", name(level.fallback)));
  if (level.layout == layout::SequenceLayout::kZigzag) out.push_back(R"("layout": "zigzag")");
  if (level.layout == layout::SequenceLayout::kStriped)
    out.push_back(fmt::format(R"("layout": "striped", "block": {})", level.block));
  if (level.packed) {
    std::string padded;
    if (!level.packed->cu_seqlens_padded.empty())
      padded = fmt::format(R"(, "cu_seqlens_padded": [{}])", fmt::join(level.packed->cu_seqlens_padded, ", "));
    out.push_back(
        fmt::format(R"("packed": {{"cu_seqlens": [{}]{}}})", fmt::join(level.packed->cu_seqlens, ", "), padded));
    if (level.packed_padding == layout::PackedPadding::kForbid) out.push_back(R"("padding": "forbid")");
  }
  return out;
}

Members padding_of(const Level& level) {
  Members out;
  if (level.pad_to) out.push_back(fmt::format(R"("pad_to": {})", *level.pad_to));
  if (level.pad_rows) out.push_back(fmt::format(R"("pad_rows": {})", *level.pad_rows));
  return out;
}

std::string mesh_text(const std::vector<layout::Axis>& axes) {
  Members out;
  for (const layout::Axis& axis : axes) out.push_back(fmt::format(R"("{}={}")", axis.name, axis.size));
  return fmt::format("[{}]", fmt::join(out, ", "));
}

std::string side_text(const SideSpec& side) {
  std::string out = fmt::format(R"({{"axes": {}, "format": "{}")", mesh_text(side.axes), side.format);
  if (!side.expert.empty()) out += fmt::format(R"(, "views": {{"expert": {}}})", mesh_text(side.expert));
  if (!side.ranks.empty()) out += fmt::format(R"(, "ranks": [{}])", fmt::join(side.ranks, ", "));
  if (!side.files.empty()) out += fmt::format(R"(, "files": "{}{{rank:03}}.{}")", side.files, side.format);
  return out + "}";
}

std::string object_text(const std::map<std::string, std::string>& members) {
  Members out;
  for (const auto& [key, value] : members) out.push_back(fmt::format(R"("{}": {})", key, value));
  return fmt::format("{{{}}}", fmt::join(out, ", "));
}

}  // namespace

std::string to_json(random_layouts::Random& random, const layout::DimCut& cut, Index size) {
  Members axes;
  Members members;
  for (std::size_t i = 0; i < cut.levels.size(); ++i) {
    const Level& level = cut.levels[i];
    Members own;
    // What may stand beside `axes` stands there or in the axis's own object.
    Members& options = i == 0 && random.chance(60) ? members : own;
    for (const std::string& option : options_of(level)) options.push_back(option);
    Members& padding = i + 1 == cut.levels.size() && random.chance(60) ? members : own;
    for (const std::string& option : padding_of(level)) padding.push_back(option);
    axes.push_back(own.empty() ? fmt::format(R"("{}")", level.axis)
                               : fmt::format(R"({{"axis": "{}", {}}})", level.axis, fmt::join(own, ", ")));
  }
  if (cut.pad_total) members.push_back(fmt::format(R"("pad_total": {})", *cut.pad_total));
  if (cut.pad_value) members.push_back(fmt::format(R"("pad_value": {})", *cut.pad_value));
  if (cut.fill == layout::Fill::kLast) members.push_back(R"("fill": "last")");
  if (size >= 0) members.push_back(fmt::format(R"("size": {})", size));
  const bool one = axes.size() == 1 && axes.front().front() == '"';
  const std::string list = one ? axes.front() : fmt::format("[{}]", fmt::join(axes, ", "));
  if (members.empty() && random.chance(70)) return list;
  members.insert(members.begin(), fmt::format(R"("axes": {})", list));
  return fmt::format("{{{}}}", fmt::join(members, ", "));
}

std::string PlanCase::text(std::size_t from, std::size_t to) const {
  Members lines;
  for (const Rule& rule : rules) {
    std::map<std::string, std::string> entry = rule.common;
    entry["match"] = fmt::format(R"("{}")", rule.match[from]);
    if (!rule.rename[to].empty()) entry["rename"] = fmt::format(R"("{}")", rule.rename[to]);
    std::map<std::string, std::string> source = rule.by_side[from];
    std::map<std::string, std::string> target = rule.by_side[to];
    // What both sides say alike is said once.
    for (auto it = source.begin(); it != source.end();) {
      const auto other = target.find(it->first);
      if (other != target.end() && other->second == it->second) {
        entry[it->first] = it->second;
        target.erase(other);
        it = source.erase(it);
      } else {
        ++it;
      }
    }
    if (!source.empty()) entry["source"] = object_text(source);
    if (!target.empty()) entry["target"] = object_text(target);
    lines.push_back("  " + object_text(entry));
  }
  return fmt::format("{{\"reshard\": 1,\n \"source\": {},\n \"target\": {},\n{} \"tensors\": [\n{}]}}\n",
                     side_text(sides[from]), side_text(sides[to]),
                     replicates_unmatched ? " \"unmatched\": \"replicate\",\n" : "", fmt::join(lines, ",\n"));
}

}  // namespace reshard::plan_cases
