#include "reshard/report/page_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "reshard/report/header_json.hpp"
#include "reshard/report/page_layout.hpp"
#include "reshard/report/tensor_groups.hpp"
#include "reshard/report/traffic_blocks.hpp"

namespace reshard::report {
namespace {

using Json = nlohmann::ordered_json;
using pipeline::PlanSummary;
using planner::Index;

constexpr Index kMostTrafficBlocks = 128;
constexpr std::size_t kMostRanks = 16384;
constexpr std::size_t kMostLines = 8;  // of a memory chart
constexpr std::size_t kMostBars = 256;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_views(JsonDocument& document, const pipeline::PlanHeader& header) {
  document.member("views", dumped({{"source", header.source.views}, {"target", header.target.views}}));
}

/// Of each process; of many, the least, the middle and the most of each entry.
void add_history(JsonDocument& document, const pipeline::RoundHistory& history) {
  Json names = Json::array();
  Json series = Json::array();
  const std::vector<std::vector<std::int64_t>>& entries = history.entries();
  const std::size_t processes = entries.empty() ? 0 : entries.front().size();
  const auto add = [&](const std::string& name, std::size_t place, const auto& by_entry) {
    Json values = Json::array();
    for (const std::vector<std::int64_t>& held : by_entry) values.push_back(held[place]);
    names.push_back(name);
    series.push_back(std::move(values));
  };
  if (processes <= (entries.size() == 1 ? kMostBars : kMostLines)) {
    for (std::size_t p = 0; p < processes; ++p) add(fmt::format("process {}", p), p, entries);
  } else {
    std::vector<std::vector<std::int64_t>> sorted = entries;
    for (std::vector<std::int64_t>& held : sorted) std::sort(held.begin(), held.end());
    add("most", processes - 1, sorted);
    add("middle", processes / 2, sorted);
    add("least", 0, sorted);
  }
  document.member("history", dumped({{"rounds", history.rounds()},
                                     {"rounds_per_entry", history.rounds_per_entry()},
                                     {"names", std::move(names)},
                                     {"series", std::move(series)}}));
}

void add_traffic(JsonDocument& document, const PlanSummary& summary) {
  const TrafficBlocks blocks = traffic_blocks(summary, kMostTrafficBlocks);
  document.member("traffic", dumped({{"sources_per_row", blocks.sources_per_row},
                                     {"targets_per_column", blocks.targets_per_column},
                                     {"bytes", blocks.bytes}}));
}

void add_ranks(JsonDocument& document, const PlanSummary& summary) {
  document.begin_list("ranks");
  const std::size_t count = std::min(summary.ranks.size(), kMostRanks);
  for (std::size_t r = 0; r < count; ++r) {
    const pipeline::RankSummary& rank = summary.ranks[r];
    std::vector<std::string> coordinates;
    for (const auto& [axis, coordinate] : rank.coordinates)
      coordinates.push_back(fmt::format("{}={}", axis, coordinate));
    document.element(
        dumped({rank.rank, fmt::format("{}", fmt::join(coordinates, " ")), rank.file, rank.tensors, rank.bytes}));
  }
  document.end_list();
  document.member("ranks_left", std::to_string(summary.ranks.size() - count));
}

/// What the line of a group tells beside its names. Groups of one kind differ in their names alone.
std::string kind_json(const PlanSummary& summary, const TensorGroup& group) {
  const pipeline::TensorSummary& tensor = summary.tensors[group.names.members.front()];
  const pipeline::LayoutSummary& layout = summary.layouts[tensor.layout];
  Json cut_dims = Json::array();
  for (const pipeline::CutSummary& cut : layout.cuts)
    if (cut.dim) cut_dims.push_back(*cut.dim);
  std::set<Shape> others;
  for (const std::optional<Shape>& shape : layout.target_shard_shapes)
    if (shape && *shape != layout.target_shard_shape) others.insert(*shape);
  Json target_shapes = Json::array({layout.target_shard_shape});
  for (const Shape& shape : others) target_shapes.push_back(shape);
  Json offsets = Json::array();
  for (const pipeline::PaddedOffsets& padded : layout.padded_offsets)
    offsets.push_back(Json::array({padded.dim, padded.offsets}));
  return dumped({{"dtypes", dtypes_text(tensor)},
                 {"source_element_bytes", size_bytes(tensor.source_dtype)},
                 {"shape", layout.shape},
                 {"rule", layout.rule ? Json(*layout.rule) : Json(nullptr)},
                 {"cuts", cuts_text(layout.cuts)},
                 {"cut_dims", std::move(cut_dims)},
                 {"source_shard_shape", layout.source_shard_shape},
                 {"target_shard_shape", layout.target_shard_shape},
                 {"target_shapes", std::move(target_shapes)},
                 {"padded_offsets", std::move(offsets)}});
}

/// Texts around the numbers that are folded; the others belong to the texts.
struct Names {
  Json texts = Json::array();
  Json slots = Json::array();
};

Names names_of(const FoldedNames& folded) {
  Names out;
  std::string text = folded.texts.front();
  for (std::size_t s = 0; s < folded.slots.size(); ++s) {
    if (folded.slots[s].size() == 1) {
      text += std::to_string(folded.slots[s].front());
    } else {
      out.texts.push_back(std::exchange(text, {}));
      Json runs = Json::array();
      for (const NumberRun& run : number_runs(folded.slots[s])) runs.push_back({run.first, run.last, run.step});
      out.slots.push_back(std::move(runs));
    }
    text += folded.texts[s + 1];
  }
  out.texts.push_back(std::move(text));
  return out;
}

/// [kind, texts, slots, runs of layouts in order of the names, pattern, patterns in the source]; the last two only
/// where they tell more.
std::string group_json(const PlanSummary& summary, const TensorGroup& group, std::size_t kind) {
  Names names = names_of(group.names);
  Json layouts = Json::array();
  for (const std::size_t t : group.names.members) {
    const std::size_t layout = summary.tensors[t].layout;
    if (layouts.empty() || layouts.back()[0] != layout) layouts.push_back({layout, 0});
    layouts.back()[1] = layouts.back()[1].get<std::size_t>() + 1;
  }
  const bool folds = !names.slots.empty();
  Json out = Json::array({kind, std::move(names.texts), std::move(names.slots), std::move(layouts)});
  if (folds || !group.source_patterns.empty()) out.push_back(group.names.pattern);
  if (!group.source_patterns.empty()) out.push_back(group.source_patterns);
  return dumped(out);
}

void add_groups(JsonDocument& document, const PlanSummary& summary, const std::vector<TensorGroup>& groups) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::string> kinds;
  document.begin_list("groups");
  for (const TensorGroup& group : groups) {
    std::string kind = kind_json(summary, group);
    const auto [entry, added] = numbers.try_emplace(kind, kinds.size());
    if (added) kinds.push_back(std::move(kind));
    document.element(group_json(summary, group, entry->second));
  }
  document.end_list();
  document.begin_list("kinds");
  for (const std::string& kind : kinds) document.element(kind);
  document.end_list();
}

/// The layouts that groups begin with come first where not all fit.
void add_layouts(JsonDocument& document, const PlanSummary& summary, const std::vector<TensorGroup>& groups) {
  std::vector<std::size_t> first_tensor(summary.layouts.size(), summary.tensors.size());
  for (std::size_t t = summary.tensors.size(); t-- > 0;) first_tensor[summary.tensors[t].layout] = t;
  std::vector<std::string> layouts(summary.layouts.size(), "null");
  std::size_t bytes = 0;
  const auto write = [&](std::size_t layout) {
    if (layouts[layout] != "null" || bytes >= kDrawingBytes) return;
    layouts[layout] = page_layout(summary, first_tensor[layout]);
    bytes += layouts[layout].size();
  };
  for (const TensorGroup& group : groups) write(summary.tensors[group.names.members.front()].layout);
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) write(layout);
  document.begin_list("layouts");
  for (const std::string& layout : layouts) document.element(layout);
  document.end_list();
}

void add_copy_axes(JsonDocument& document, const PlanSummary& summary) {
  std::vector<std::string> texts;
  for (const pipeline::CopyAxis& copy : summary.copy_axes) texts.push_back(copy_axis_text(copy));
  document.member("copy_axes", json_list(texts));
}

}  // namespace

std::string page_data(const PlanSummary& summary) {
  const std::vector<TensorGroup> groups = tensor_groups(summary);
  JsonDocument document("reshard.plan");
  add_header(document, summary.header, std::nullopt);
  document.member("storage_gigabytes_per_second", fmt::format("{:g}", pipeline::kStorageBytesPerSecond / 1e9));
  add_views(document, summary.header);
  add_history(document, summary.rounds);
  add_traffic(document, summary);
  add_ranks(document, summary);
  add_groups(document, summary, groups);
  add_layouts(document, summary, groups);
  add_copy_axes(document, summary);
  add_remarks(document, summary.header);
  return document.finish();
}

}  // namespace reshard::report
