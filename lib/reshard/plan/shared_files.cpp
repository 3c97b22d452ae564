#include "reshard/plan/shared_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "reshard/plan/rank_files.hpp"

namespace reshard::plan {
namespace {

using layout::Index;

/// An axis whose coordinates have different shards of some tensor, or different tensors.
struct Divider {
  std::string view;
  std::string axis;
  std::size_t rule = 0;
};

bool surely_cuts(const layout::Level& level) {
  return level.axis_size > 1 && level.fallback == layout::Fallback::kError &&
         std::all_of(level.segments.begin(), level.segments.end(), [](const layout::Segment& segment) {
           return segment.fallback.value_or(layout::Fallback::kError) == layout::Fallback::kError;
         });
}

/// Tied copies may be on every coordinate.
bool surely_owns(const OwnerRule& owner) {
  const std::set<Index> numbers(owner.indices.begin(), owner.indices.end());
  return owner.axis_size > 1 && (owner.capture || static_cast<Index>(numbers.size()) < owner.axis_size);
}

/// Each axis of each view once, with the first rule that divides by it.
std::vector<Divider> dividers(const std::vector<Rule>& rules, Placement Rule::*placement) {
  std::vector<Divider> out;
  const auto add = [&](const std::string& view, const std::string& axis, std::size_t rule) {
    const bool known = std::any_of(
        out.begin(), out.end(), [&](const Divider& divider) { return divider.view == view && divider.axis == axis; });
    if (!known) out.push_back({view, axis, rule});
  };
  for (const Rule& rule : rules) {
    if (rule.drop || rule.optional) continue;
    const Placement& side = rule.*placement;
    for (const DimRule& dim : side.shard)
      for (const layout::Level& level : dim.cut.levels)
        if (surely_cuts(level)) add(side.view, level.axis, rule.number);
    for (const OwnerRule& owner : side.owners)
      if (surely_owns(owner)) add(side.view, owner.axis, rule.number);
  }
  return out;
}

/// Numbers without anything between them run together: {tp}{dp} is 111 for 1 and 11 as for 11 and 1.
std::string remedy(const std::string& files, const std::string& axis) {
  const bool is_named =
      files.find("{" + axis + "}") != std::string::npos || files.find("{" + axis + ":") != std::string::npos;
  return is_named ? fmt::format("put something between the fields, as '-', or give them a width, as {{{}:03}}", axis)
                  : fmt::format("name the axis in it, as {{{}}}, or {{rank}}", axis);
}

}  // namespace

void check_shared_files(const Side& side, const std::vector<Rule>& rules, Placement Rule::*placement,
                        const Node& side_node, Faults& faults) {
  if (!side.files || side.mesh.size() == 1) return;
  std::vector<Divider> left = dividers(rules, placement);
  if (left.empty()) return;
  Node at = side_node;
  for (const Value::Member& member : side_node->object())
    if (member.key == "files") at = child(side_node, member);
  const RankFiles names(*side.files, side);
  std::map<std::string, Index> first_rank;
  for (Index rank = 0; rank < side.mesh.size() && !left.empty(); ++rank) {
    const auto entry = first_rank.try_emplace(names.of(rank), rank);
    if (entry.second) continue;
    const std::string& file = entry.first->first;
    const Index first = entry.first->second;
    std::erase_if(left, [&](const Divider& divider) {
      const layout::Mesh& mesh = side.mesh_of(divider.view);
      if (mesh.coordinate(first, divider.axis) == mesh.coordinate(rank, divider.axis)) return false;
      faults.add(ErrorCode::kSchema, at,
                 fmt::format("puts ranks {} and {} both into {}, but tensors[{}] divides by axis '{}', on which they "
                             "have different coordinates; {}",
                             first, rank, file, divider.rule, divider.axis, remedy(*side.files, divider.axis)));
      return true;
    });
  }
}

}  // namespace reshard::plan
