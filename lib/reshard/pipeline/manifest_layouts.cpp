#include "reshard/pipeline/manifest_layouts.hpp"

#include <set>
#include <string>

#include "reshard/base/value.hpp"
#include "reshard/plan/canonical.hpp"
#include "reshard/planner/binding_cuts.hpp"
#include "reshard/planner/binding_text.hpp"

namespace reshard::pipeline {

std::size_t ManifestLayouts::number_of(const ManifestTensor& tensor) {
  const auto known = numbers_.find({tensor.placement, tensor.shape});
  if (known != numbers_.end()) return known->second;
  layouts_.push_back(lay_out(manifest_.placements[tensor.placement], tensor.shape));
  return numbers_[{tensor.placement, tensor.shape}] = layouts_.size() - 1;
}

planner::RecordedLayout ManifestLayouts::lay_out(const plan::Placement& placement, const Shape& shape) {
  planner::RecordedLayout out;
  std::set<std::string> axes;
  std::vector<planner::BoundOwner> owners;
  for (const plan::OwnerRule& owner : placement.owners) {
    owners.push_back(planner::owner_coordinates(owner, {}));
    if (owner.axis_size > 1) axes.insert(owner.axis);
  }
  const layout::Mesh& mesh = manifest_.side.mesh_of(placement.view);
  const layout::TensorCut cut{planner::cuts_by_position(placement.shard, shape.size(), mesh),
                              presence_.ranks(placement.view, owners)};
  for (const layout::DimCut& dim : cut.dims)
    for (const layout::Level& level : dim.levels)
      if (level.axis_size > 1) axes.insert(level.axis);
  out.layout = layout::lay_out(shape, cut, mesh);
  out.text = canonical_json(plan::placement_value(placement));
  out.axes.assign(axes.begin(), axes.end());
  return out;
}

std::string recorded_holdings(const Manifest& manifest, planner::Index rank) {
  ManifestLayouts layouts(manifest);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest.tensors)
    if (layouts[layouts.number_of(tensor)].layout.is_present(rank)) names.push_back(name);
  return names.empty() ? "" : planner::name_list(names);
}

}  // namespace reshard::pipeline
