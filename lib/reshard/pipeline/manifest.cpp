#include "reshard/pipeline/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "reshard/base/crc64.hpp"
#include "reshard/base/error.hpp"
#include "reshard/pipeline/target.hpp"

namespace reshard::pipeline {
namespace {

using Json = nlohmann::ordered_json;
using layout::DimCut;
using layout::Level;

constexpr const char* name(layout::Fallback fallback) {
  switch (fallback) {
    case layout::Fallback::kError:
      return "error";
    case layout::Fallback::kReplicate:
      return "replicate";
    case layout::Fallback::kRepeat:
      return "repeat";
  }
  return "";
}

/// The options of one level, in the words of a plan; what is default is left out.
Json options_of(const Level& level) {
  Json out = Json::object();
  if (level.unit != 1) out["unit"] = level.unit;
  if (!level.segments.empty()) {
    out["segments"] = Json::array();
    for (const layout::Segment& segment : level.segments) {
      if (!segment.unit && !segment.fallback) {
        out["segments"].push_back(segment.size);
        continue;
      }
      Json part = {{"size", segment.size}};
      if (segment.unit) part["unit"] = *segment.unit;
      if (segment.fallback) part["fallback"] = name(*segment.fallback);
      out["segments"].push_back(std::move(part));
    }
  }
  if (level.stride != 1) out["stride"] = level.stride;
  switch (level.split) {
    case layout::Split::kEven:
      break;
    case layout::Split::kBalanced:
      out["split"] = "balanced";
      break;
    case layout::Split::kChunk:
      out["split"] = "chunk";
      break;
    case layout::Split::kShares:
      out["split"] = level.shares;
      break;
  }
  if (level.fallback != layout::Fallback::kError) out["fallback"] = name(level.fallback);
  if (level.layout == layout::SequenceLayout::kZigzag) out["layout"] = "zigzag";
  if (level.layout == layout::SequenceLayout::kStriped) {
    out["layout"] = "striped";
    out["block"] = level.block;
  }
  if (level.packed) {
    out["packed"] = {{"cu_seqlens", level.packed->cu_seqlens}};
    if (!level.packed->cu_seqlens_padded.empty()) out["packed"]["cu_seqlens_padded"] = level.packed->cu_seqlens_padded;
    out["padding"] = level.packed_padding == layout::PackedPadding::kForbid ? "forbid" : "temporary";
  }
  if (level.pad_to) out["pad_to"] = *level.pad_to;
  if (level.pad_rows) out["pad_rows"] = *level.pad_rows;
  return out;
}

Json shard_of(const DimCut& cut) {
  Json out = {{"axes", Json::array()}};
  for (std::size_t i = 0; i < cut.levels.size(); ++i) {
    Json level = options_of(cut.levels[i]);
    // Options of the first level stand beside `axes`; those of a further one in its own object.
    if (i == 0) {
      out["axes"].push_back(cut.levels[i].axis);
      for (auto& [key, value] : level.items()) out[key] = value;
    } else if (level.empty()) {
      out["axes"].push_back(cut.levels[i].axis);
    } else {
      Json entry = {{"axis", cut.levels[i].axis}};
      for (auto& [key, value] : level.items()) entry[key] = value;
      out["axes"].push_back(std::move(entry));
    }
  }
  if (cut.pad_total) out["pad_total"] = *cut.pad_total;
  if (cut.fill == layout::Fill::kLast) out["fill"] = "last";
  if (cut.pad_value) out["pad_value"] = *cut.pad_value;
  return out;
}

Json placement_of(const planner::BoundPlacement& placement) {
  Json shard = Json::object();
  for (std::size_t d = 0; d < placement.dims.size(); ++d)
    if (!placement.dims[d].levels.empty() || placement.dims[d].pad_total)
      shard[std::to_string(d)] = shard_of(placement.dims[d]);
  Json owners = Json::object();
  for (const planner::BoundOwner& owner : placement.owners) {
    Json entry = {{"index", owner.indices.size() == 1 ? Json(owner.indices.front()) : Json(owner.indices)}};
    entry["count"] = owner.count;
    owners[owner.axis] = std::move(entry);
  }
  Json out = {{"view", placement.view.empty() ? Json(nullptr) : Json(placement.view)}, {"shard", std::move(shard)}};
  if (!owners.empty()) out["owner"] = std::move(owners);
  return out;
}

}  // namespace

std::string to_json(const ManifestContent& content) {
  Json out;
  out["schema"] = "reshard.manifest";
  out["version"] = 1;
  out["tool"] = content.tool;
  out["plan_digest"] = content.plan_digest;
  out["format"] = content.format;
  out["axes"] = axes_text(content.target.mesh);
  out["ranks"] = content.target.mesh.ranks().empty() ? Json(nullptr) : Json(content.target.mesh.ranks());
  Json views = Json::object();
  for (const plan::View& view : content.target.views) views[view.name] = axes_text(view.mesh);
  out["views"] = std::move(views);
  out["files"] = content.files ? Json(*content.files) : Json(nullptr);

  // Distinct placements, in order of first use.
  std::vector<planner::BoundPlacement> placements;
  std::vector<std::size_t> placement_of_layout;
  for (const planner::LayoutPair& pair : content.bound.layouts) {
    const auto it = std::find(placements.begin(), placements.end(), pair.target_placement);
    placement_of_layout.push_back(static_cast<std::size_t>(it - placements.begin()));
    if (it == placements.end()) placements.push_back(pair.target_placement);
  }
  out["placements"] = Json::array();
  for (const planner::BoundPlacement& placement : placements) out["placements"].push_back(placement_of(placement));

  // Names are unique here already: looking each up among those before it would take the square of their number.
  Json tensors = Json::object();
  auto& members = tensors.get_ref<Json::object_t&>();
  members.reserve(content.bound.tensors.size());
  for (std::size_t t = 0; t < content.bound.tensors.size(); ++t) {
    const planner::BoundTensor& tensor = content.bound.tensors[t];
    Json entry;
    entry["dtype"] = reshard::name(tensor.target_dtype);
    entry["shape"] = content.bound.layouts[tensor.layout].target.shape;
    entry["placement"] = placement_of_layout[tensor.layout];
    entry["digest"] = crc64::to_hex(content.digests[t]);
    if (tensor.source_dtype != tensor.target_dtype) entry["source_digest"] = crc64::to_hex(content.source_digests[t]);
    if (tensor.target_stored_name != tensor.target_name) entry["stored"] = tensor.target_stored_name;
    members.emplace_back(tensor.target_name, std::move(entry));
  }
  out["tensors"] = std::move(tensors);

  Json files = Json::object();
  for (const auto& [file, entry] : content.file_list)
    files[file] = {{"bytes", entry.bytes}, {"digest", crc64::to_hex(entry.digest)}};
  out["file_list"] = std::move(files);
  return out.dump(1, ' ', false, Json::error_handler_t::strict) + "\n";
}

}  // namespace reshard::pipeline
