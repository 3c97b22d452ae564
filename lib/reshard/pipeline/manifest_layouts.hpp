#pragma once
// What every rank stores of a tensor, by the manifest's placements: one layout for each placement and shape, shared by
// the tensors that have both.

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reshard/pipeline/manifest_reader.hpp"
#include "reshard/planner/binding_owners.hpp"
#include "reshard/planner/catalog.hpp"

namespace reshard::pipeline {

class ManifestLayouts {
 public:
  /// `manifest` outlives this.
  explicit ManifestLayouts(const Manifest& manifest) : manifest_(manifest), presence_(manifest.side) {}

  /// The number of a tensor's layout, counted from 0 in order of first use. Errors: those of layout/cut.hpp where the
  /// placement cannot cut the shape.
  std::size_t number_of(const ManifestTensor& tensor);
  std::size_t size() const { return layouts_.size(); }
  const planner::RecordedLayout& operator[](std::size_t number) const { return layouts_[number]; }
  std::vector<planner::RecordedLayout> take() { return std::move(layouts_); }

 private:
  planner::RecordedLayout lay_out(const plan::Placement& placement, const Shape& shape);

  const Manifest& manifest_;
  planner::Presence presence_;
  std::map<std::pair<std::size_t, Shape>, std::size_t> numbers_;  // by placement and shape
  std::vector<planner::RecordedLayout> layouts_;
};

/// "'a', 'layers.*.w' (32 tensors)": what a rank holds. Errors: those of number_of.
std::string recorded_holdings(const Manifest& manifest, planner::Index rank);

}  // namespace reshard::pipeline
