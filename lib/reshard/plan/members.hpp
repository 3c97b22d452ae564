#pragma once
// Groups (section 8): the members of a weight and the named dims that each of them has.

#include <string>
#include <vector>

#include "reshard/layout/mesh.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {

/// One token of a member's dims: a dim name with its divisor, or "." (empty name: never cut).
struct MemberDim {
  std::string name;
  layout::Index divisor = 1;

  friend bool operator==(const MemberDim&, const MemberDim&) = default;
};

struct Member {
  std::string suffix;  ///< without the `?`
  bool may_be_absent = false;
  std::vector<MemberDim> dims;

  friend bool operator==(const Member&, const Member&) = default;
};

/// In the order written; empty after a fault (kSchema).
std::vector<Member> read_members(const Node& node, Faults& faults);

/// Names of all dims, each once, in order of first use.
std::vector<std::string> dim_names(const std::vector<Member>& members);

}  // namespace reshard::plan
