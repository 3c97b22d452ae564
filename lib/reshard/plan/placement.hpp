#pragma once
// A placement: how one side cuts the tensors of a rule, and which ranks have them.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/value.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/plan/faults.hpp"
#include "reshard/plan/members.hpp"
#include "reshard/plan/overrides.hpp"
#include "reshard/plan/owner.hpp"
#include "reshard/plan/place.hpp"
#include "reshard/plan/side.hpp"

namespace reshard::plan {

/// What a rule says of one side.
struct Placement {
  /// False: the rule says nothing of this side. Whole on every rank then, but for a source whose manifest knows better.
  bool is_written = false;
  std::vector<DimRule> shard;
  std::string view;  ///< empty: `axes`
  std::vector<OwnerRule> owners;
  std::vector<Member> members;  ///< not empty: the rule is a group and matches prefixes
};

/// Where words are read.
struct PlacementScope {
  const Side* here = nullptr;
  const Side* other = nullptr;
  std::string side;          ///< "source" or "target", for messages
  std::string other_view;    ///< the rule's view on the other side
  std::size_t captures = 0;  ///< of the rule's pattern
  layout::Fallback fallback = layout::Fallback::kError;
};

/// The view that words name; empty where none. Reports kSchema where neither side defines it.
std::string read_view(const SideWords& words, const Node& rule, const PlacementScope& scope, Faults& faults);

/// Reports all that plan format sections 4 to 9 refuse. Paths in messages start at `rule`.
Placement read_placement(const SideWords& words, const Node& rule, const PlacementScope& scope, Faults& faults);

/// A placement that stands alone, as a manifest has it: {"view": ..., "shard": ..., "owner": ...}, null where there is
/// none. The other side has no axes. Throws what is wrong.
Placement read_placement(const Value& value, const Side& side, std::string_view source);

}  // namespace reshard::plan
