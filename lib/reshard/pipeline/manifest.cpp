#include "reshard/pipeline/manifest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "reshard/base/crc64.hpp"
#include "reshard/base/error.hpp"
#include "reshard/base/value.hpp"
#include "reshard/pipeline/target.hpp"
#include "reshard/plan/canonical.hpp"

namespace reshard::pipeline {
namespace {

using Json = nlohmann::ordered_json;
using layout::DimCut;
using layout::Level;

/// A plan's words, keys in the order in which they are put.
Json json_of(const Value& value) {
  if (value.is_bool()) return value.boolean();
  if (value.is_integer()) return value.integer();
  if (value.is_float()) return value.floating().value;
  if (value.is_string()) return value.string();
  if (value.is_array()) {
    Json out = Json::array();
    for (const Value& item : value.array()) out.push_back(json_of(item));
    return out;
  }
  if (!value.is_object()) return nullptr;
  Json out = Json::object();
  for (const Value::Member& member : value.object()) out[member.key] = json_of(member.value);
  return out;
}

/// `mesh` as a plan writes it, and the axes of size 1 that placements of `view` name though it has none of them.
Json axes_of(const layout::Mesh& mesh, const std::string& view,
             const std::vector<planner::BoundPlacement>& placements) {
  Json out = axes_text(mesh);
  std::set<std::string> added;
  for (const planner::BoundPlacement& placement : placements)
    for (const DimCut& cut : placement.dims)
      for (const Level& level : cut.levels)
        if (placement.view == view && !mesh.axis_size(level.axis) && added.insert(level.axis).second)
          out.push_back(fmt::format("{}={}", level.axis, level.axis_size));
  return out;
}

Json placement_of(const planner::BoundPlacement& placement) {
  Json shard = Json::object();
  for (std::size_t d = 0; d < placement.dims.size(); ++d)
    if (!placement.dims[d].levels.empty() || placement.dims[d].pad_total)
      shard[std::to_string(d)] = json_of(plan::dim_value(placement.dims[d]));
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

std::string printed(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::strict);
}

/// Appends a member of an object at the second level of the manifest, laid out as the rest of it: one blank per level.
/// `members`: what stands between its braces.
void add_member(std::string& text, bool is_first, const std::string& name, std::string_view members) {
  fmt::format_to(std::back_inserter(text), "{}\n  {}: {{{}\n  }}", is_first ? "" : ",", printed(name), members);
}

std::string shape_text(const Shape& shape) {
  return shape.empty() ? "[]" : fmt::format("[\n    {}\n   ]", fmt::join(shape, ",\n    "));
}

}  // namespace

std::string to_json(const ManifestContent& content) {
  // Distinct placements, in order of first use.
  std::vector<planner::BoundPlacement> placements;
  std::vector<std::size_t> placement_of_layout;
  for (const planner::LayoutPair& pair : content.bound.layouts) {
    const auto it = std::find(placements.begin(), placements.end(), pair.target_placement);
    placement_of_layout.push_back(static_cast<std::size_t>(it - placements.begin()));
    if (it == placements.end()) placements.push_back(pair.target_placement);
  }

  Json out;
  out["schema"] = "reshard.manifest";
  out["version"] = 1;
  out["tool"] = content.tool;
  out["plan_digest"] = content.plan_digest;
  out["format"] = content.format;
  out["axes"] = axes_of(content.target.mesh, "", placements);
  out["ranks"] = content.target.mesh.ranks().empty() ? Json(nullptr) : Json(content.target.mesh.ranks());
  Json views = Json::object();
  for (const plan::View& view : content.target.views) views[view.name] = axes_of(view.mesh, view.name, placements);
  out["views"] = std::move(views);
  out["files"] = content.files ? Json(*content.files) : Json(nullptr);

  out["placements"] = Json::array();
  for (const planner::BoundPlacement& placement : placements) out["placements"].push_back(placement_of(placement));

  // Tensors and files are written one by one: a tree of a million of them would take more memory than the run.
  std::string text = out.dump(1, ' ', false, Json::error_handler_t::strict);
  text.resize(text.size() - 2);  // "\n}"
  text += ",\n \"tensors\": {";
  constexpr std::size_t kUsualBytes = 200;  // of a tensor; growing a text of many would hold it twice
  text.reserve(text.size() + content.bound.tensors.size() * kUsualBytes);
  std::string members;
  for (std::size_t t = 0; t < content.bound.tensors.size(); ++t) {
    const planner::BoundTensor& tensor = content.bound.tensors[t];
    members.clear();
    fmt::format_to(std::back_inserter(members),
                   "\n   \"dtype\": \"{}\",\n   \"shape\": {},\n   \"placement\": {},\n   \"digest\": \"{}\"",
                   reshard::name(tensor.target_dtype), shape_text(content.bound.layouts[tensor.layout].target.shape),
                   placement_of_layout[tensor.layout], crc64::to_hex(content.digests[t]));
    if (tensor.source_dtype != tensor.target_dtype)
      members += fmt::format(",\n   \"source_digest\": \"{}\"", crc64::to_hex(content.source_digests[t]));
    if (tensor.target_stored_name() != tensor.target_name)
      members += fmt::format(",\n   \"stored\": {}", printed(tensor.target_stored_name()));
    add_member(text, t == 0, tensor.target_name, members);
  }
  text += content.bound.tensors.empty() ? "},\n \"file_list\": {" : "\n },\n \"file_list\": {";
  bool first = true;
  for (const auto& [file, entry] : content.file_list)
    add_member(text, std::exchange(first, false), file,
               fmt::format("\n   \"bytes\": {},\n   \"digest\": \"{}\"", entry.bytes, crc64::to_hex(entry.digest)));
  text += first ? "}\n}\n" : "\n }\n}\n";
  return text;
}

}  // namespace reshard::pipeline
