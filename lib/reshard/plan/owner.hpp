#pragma once
// `owner` of a rule (section 4): on which coordinates of an axis a tensor exists.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reshard/layout/mesh.hpp"
#include "reshard/plan/dim.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {

struct OwnerRule {
  std::string axis;
  layout::Index axis_size = 1;         ///< on this side; 1: coordinate 0 has every number
  std::optional<std::size_t> capture;  ///< $i that holds the number; else `indices`
  std::vector<layout::Index> indices;  ///< each below `count`
  layout::Index count = 0;             ///< a multiple of axis_size where `split` is empty
  std::vector<layout::Index> split;    ///< numbers per coordinate, adding up to `count`; empty: equal shares
  bool local_numbering = false;

  friend bool operator==(const OwnerRule&, const OwnerRule&) = default;
};

/// One rule per axis, in the order written. `captures` is the number of captures of the rule's pattern. Reports
/// kSchema, kPattern (`$i` without capture), kAxisUnknown, kOwner (index >= count, count not a multiple of the size,
/// wrong number of shares).
std::vector<OwnerRule> read_owners(const Node& node, const AxisScope& scope, std::size_t captures, Faults& faults);

}  // namespace reshard::plan
