#pragma once
// The cut of one dim (sections 5 and 9): a `shard` entry as a layout::DimCut whose axis sizes are bound to one side.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {

/// The meshes that the axes of a rule belong to.
struct AxisScope {
  const layout::Mesh* here = nullptr;   ///< of the side that is read
  const layout::Mesh* other = nullptr;  ///< of the other side: an axis that only it has counts as size 1 here
  std::string side;                     ///< "source" or "target", for messages
  std::string view;                     ///< of the rule, for messages
  bool all_read = true;  ///< false: there may be axes that neither mesh has, because their side was not all read
  layout::Fallback fallback = layout::Fallback::kError;  ///< where a level says nothing

  /// Reports kAxisUnknown for an axis that neither mesh has, where both were all read; 1 then.
  layout::Index size_of(const std::string& axis, const Node& at, Faults& faults) const;
};

/// What can be read of an entry. Axes are checked for existence, not for use elsewhere in the rule.
layout::DimCut read_dim(const Node& entry, const AxisScope& scope, Faults& faults);

}  // namespace reshard::plan
