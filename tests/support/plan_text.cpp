#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "support/plan_cases.hpp"

namespace reshard::plan_cases {
namespace {

using layout::Level;
using Members = std::vector<std::string>;

std::string_view name(layout::Fallback fallback) {
  if (fallback == layout::Fallback::kRepeat) return "repeat";
  return fallback == layout::Fallback::kReplicate ? "replicate" : "error";
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
  if (!side.files.empty()) out += fmt::format(R"(, "files": "{}")", side.file_template());
  return out + "}";
}

std::string object_text(const std::map<std::string, std::string>& members) {
  Members out;
  for (const auto& [key, value] : members) out.push_back(fmt::format(R"("{}": {})", key, value));
  return fmt::format("{{{}}}", fmt::join(out, ", "));
}

Members numbers_of(Wording& wording, const std::vector<Index>& values) {
  Members out;
  for (const Index value : values) out.push_back(wording.number(value));
  return out;
}

/// Boundaries of packed sequences: the name of a tensor, or numbers.
std::string boundaries(Wording& wording, const std::string& tensor, const std::vector<Index>& values) {
  return tensor.empty() ? fmt::format("[{}]", fmt::join(numbers_of(wording, values), ", "))
                        : fmt::format(R"("{}")", tensor);
}

/// Options that belong to the axis itself.
Members options_of(Wording& wording, const Level& level) {
  Members out;
  const auto add = [&](const char* key, Index value) {
    out.push_back(fmt::format(R"("{}": {})", key, wording.number(value)));
  };
  if (level.unit != 1) add("unit", level.unit);
  if (!level.segments.empty()) {
    Members parts;
    for (const layout::Segment& segment : level.segments) {
      std::string part = wording.number(segment.size);
      if (segment.unit || segment.fallback) {
        part = fmt::format(R"({{"size": {})", part);
        if (segment.unit) part += fmt::format(R"(, "unit": {})", wording.number(*segment.unit));
        if (segment.fallback) part += fmt::format(R"(, "fallback": "{}")", name(*segment.fallback));
        part += "}";
      }
      parts.push_back(part);
    }
    out.push_back(fmt::format(R"("segments": [{}])", fmt::join(parts, ", ")));
  }
  if (level.stride != 1) add("stride", level.stride);
  if (level.split == layout::Split::kBalanced) out.push_back(R"("split": "balanced")");
  if (level.split == layout::Split::kChunk) out.push_back(R"("split": "chunk")");
  if (level.split == layout::Split::kShares)
    out.push_back(fmt::format(R"("split": [{}])", fmt::join(numbers_of(wording, level.shares), ", ")));
  if (level.fallback != wording.fallback) out.push_back(fmt::format(R"("fallback": "{}")", name(level.fallback)));
  if (level.layout == layout::SequenceLayout::kZigzag) out.push_back(R"("layout": "zigzag")");
  if (level.layout == layout::SequenceLayout::kStriped) {
    out.push_back(R"("layout": "striped")");
    add("block", level.block);
  }
  if (level.packed) {
    const layout::PackedSequences& packed = *level.packed;
    std::string padded;
    if (!packed.cu_seqlens_padded.empty())
      padded = fmt::format(R"(, "cu_seqlens_padded": {})",
                           boundaries(wording, packed.cu_seqlens_padded_tensor, packed.cu_seqlens_padded));
    out.push_back(fmt::format(R"("packed": {{"cu_seqlens": {}{}}})",
                              boundaries(wording, packed.cu_seqlens_tensor, packed.cu_seqlens), padded));
    if (level.packed_padding == layout::PackedPadding::kForbid) out.push_back(R"("padding": "forbid")");
  }
  return out;
}

Members padding_of(Wording& wording, const Level& level) {
  Members out;
  if (level.pad_to) out.push_back(fmt::format(R"("pad_to": {})", wording.number(*level.pad_to)));
  if (level.pad_rows) out.push_back(fmt::format(R"("pad_rows": {})", wording.number(*level.pad_rows)));
  return out;
}

using Json = nlohmann::ordered_json;

/// What makes one side's `shard` of another's, dim by dim and key by key.
Json changes(const Json& from, const Json& to) {
  Json out = Json::object();
  for (const auto& [dim, entry] : from.items())
    if (!to.contains(dim)) out[dim] = nullptr;
  for (const auto& [dim, entry] : to.items()) {
    if (from.contains(dim) && from[dim] == entry) continue;
    out[dim] = entry;
    if (!from.contains(dim) || !entry.is_object()) continue;
    // An object is merged into the one that is there.
    const Json known = from[dim].is_object() ? from[dim] : Json{{"axes", from[dim]}};
    for (const auto& [key, value] : known.items()) {
      if (!entry.contains(key)) out[dim][key] = nullptr;
      if (entry.contains(key) && entry[key] == value) out[dim].erase(key);
    }
  }
  return out;
}

/// Writes the target's cut as changes to the source's, which becomes the rule's.
void merge_overrides(std::map<std::string, std::string>& rule, std::map<std::string, std::string>& source,
                     std::map<std::string, std::string>& target) {
  const auto shard = source.find("shard");
  if (shard == source.end() || rule.contains("members") || rule.contains("projection")) return;
  if (!target.contains("place")) {
    const auto wanted = target.find("shard");
    const Json made =
        wanted == target.end() ? Json() : changes(Json::parse(shard->second), Json::parse(wanted->second));
    target["shard"] = made.dump();
    if (made.is_object() && made.empty()) target.erase("shard");
  }
  rule["shard"] = shard->second;
  source.erase(shard);
}

}  // namespace

const std::map<std::string, Index>& variables() {
  static const std::map<std::string, Index> all = {{"two", 2}, {"three", 3}};
  return all;
}

std::string Wording::number(Index value) {
  if (!with_vars || !random.chance(30)) return std::to_string(value);
  shown.insert("vars");
  switch (random.between(0, 3)) {
    case 0:
      return fmt::format(R"("${{two * {} + {}}}")", value / 2, value % 2);
    case 1:
      return fmt::format(R"("${{{} / three}}")", 3 * value);
    case 2:
      return fmt::format(R"("${{-(three - {})}}")", value + 3);
    default:
      return fmt::format(R"("${{{} - two}}")", value + 2);
  }
}

std::string Wording::cut(const layout::DimCut& cut, Index size) {
  Members axes;
  Members members;
  for (std::size_t i = 0; i < cut.levels.size(); ++i) {
    const Level& level = cut.levels[i];
    Members own;
    // What may stand beside `axes` stands there or in the axis's own object.
    Members& options = i == 0 && random.chance(60) ? members : own;
    for (const std::string& option : options_of(*this, level)) options.push_back(option);
    Members& padding = i + 1 == cut.levels.size() && random.chance(60) ? members : own;
    for (const std::string& option : padding_of(*this, level)) padding.push_back(option);
    if (i > 0 && !own.empty()) shown.insert("inner options");
    axes.push_back(own.empty() ? fmt::format(R"("{}")", level.axis)
                               : fmt::format(R"({{"axis": "{}", {}}})", level.axis, fmt::join(own, ", ")));
  }
  if (cut.pad_total) members.push_back(fmt::format(R"("pad_total": {})", number(*cut.pad_total)));
  if (cut.pad_value) members.push_back(fmt::format(R"("pad_value": {})", *cut.pad_value));
  if (cut.fill == layout::Fill::kLast) members.push_back(R"("fill": "last")");
  if (size >= 0) members.push_back(fmt::format(R"("size": {})", number(size)));
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
    if (!rule.dtype[to].empty()) entry["dtype"] = fmt::format(R"("{}")", rule.dtype[to]);
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
    if (merges_overrides) merge_overrides(entry, source, target);
    if (!source.empty()) entry["source"] = object_text(source);
    if (!target.empty()) entry["target"] = object_text(target);
    lines.push_back("  " + object_text(entry));
  }
  Members variables;
  for (const auto& [variable, value] : vars) variables.push_back(fmt::format(R"("{}": {})", variable, value));
  return fmt::format("{{\"reshard\": 1,\n{} \"source\": {},\n \"target\": {},\n{} \"tensors\": [\n{}]}}\n",
                     vars.empty() ? "" : fmt::format(" \"vars\": {{{}}},\n", fmt::join(variables, ", ")),
                     side_text(sides[from]), side_text(sides[to]),
                     replicates_unmatched ? " \"unmatched\": \"replicate\",\n" : "", fmt::join(lines, ",\n"));
}

}  // namespace reshard::plan_cases
