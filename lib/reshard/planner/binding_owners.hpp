#pragma once
// Which ranks have a numbered tensor (a layer, an expert), from the number in its name (plan format section 4).

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshard/layout/owner.hpp"
#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding.hpp"

namespace reshard::planner {

/// The numbers of an owner rule on its axis. Errors: kOwner.
layout::Ownership ownership(const plan::OwnerRule& owner);

/// The number a capture holds. Errors: kOwner (no decimal number).
Index captured_number(const plan::OwnerRule& owner, const std::vector<std::string>& captures);

/// The coordinates an owner rule names, ascending and distinct. Errors: kOwner (number >= count, and as above).
BoundOwner owner_coordinates(const plan::OwnerRule& owner, const std::vector<std::string>& captures);

/// The ranks of one side that lie on given coordinates. Answers are kept: a model asks the same few over and over.
class Presence {
 public:
  explicit Presence(const plan::Side& side) : side_(&side) {}

  /// By rank; empty where that is every rank.
  const std::vector<bool>& ranks(const std::string& view, const std::vector<BoundOwner>& owners);
  /// Coordinate of every rank on an axis of a view.
  const std::vector<Index>& coordinates(const std::string& view, const std::string& axis);

 private:
  const plan::Side* side_;
  std::map<std::pair<std::string, std::string>, std::vector<Index>> coordinates_;
  std::map<std::pair<std::string, std::vector<std::pair<std::string, std::vector<Index>>>>, std::vector<bool>> ranks_;
};

}  // namespace reshard::planner
