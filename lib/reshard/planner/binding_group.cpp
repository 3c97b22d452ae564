#include "reshard/layout/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/planner/binding_solver.hpp"

namespace reshard::planner {

using layout::DimCut;
using layout::GroupCut;
using layout::GroupMember;
using layout::GroupShape;

namespace {

/// The members of one side that are there, in the order of the unit's tensors. Both sides have the same suffixes.
std::vector<GroupMember> members_of(const UnitWork& work, const SidePlacement& side) {
  std::vector<GroupMember> out;
  for (const Identity* identity : work.unit->tensors) {
    const std::string& suffix = work.source->placement->members[identity->member].suffix;
    const auto& members = side.placement->members;
    const auto found = std::find_if(members.begin(), members.end(),
                                    [&](const plan::Member& member) { return member.suffix == suffix; });
    if (found == members.end()) internal_error(fmt::format("a side of the rule has no member '{}'", suffix));
    GroupMember member{suffix, {}};
    for (const plan::MemberDim& dim : found->dims) member.dims.push_back({dim.name, dim.divisor});
    out.push_back(std::move(member));
  }
  return out;
}

/// The cuts of dims that some member has: a dim that only absent members have needs none.
GroupCut cut_of(const std::vector<GroupMember>& members, const SidePlacement& side, const std::vector<bool>& present) {
  GroupCut out{{}, present};
  for (const plan::DimRule& rule : side.shard) {
    const bool carried = std::any_of(members.begin(), members.end(), [&](const GroupMember& member) {
      return std::any_of(member.dims.begin(), member.dims.end(),
                         [&](const layout::MemberDim& dim) { return dim.name == rule.dim; });
    });
    if (carried) out.dims.push_back({rule.dim, rule.cut});
  }
  return out;
}

/// The sizes in the words of the target, whose members may have other dims than the source's ("out in/4" here, "out ."
/// there). A dim that the source has no name for is as long as `size` or its finest member says.
GroupShape target_shape(const std::vector<GroupMember>& members, const std::vector<GroupMember>& source_members,
                        const GroupShape& source, const GroupCut& cut) {
  GroupShape out{source.dims, source.members};
  std::map<std::string, Index> divisors;  // the finest of each dim that is new
  for (std::size_t m = 0; m < members.size(); ++m)
    for (std::size_t d = 0; d < members[m].dims.size(); ++d) {
      const layout::MemberDim& token = members[m].dims[d];
      if (token == source_members[m].dims[d]) continue;
      out.members[m].restarts[d] = false;
      const bool known = std::any_of(source.dims.begin(), source.dims.end(),
                                     [&](const GroupShape::Dim& dim) { return dim.name == token.name; });
      if (token.name.empty() || known) continue;
      const auto [finest, is_new] = divisors.try_emplace(token.name, token.divisor);
      if (is_new) out.dims.push_back({token.name, 0, {}});
      if (!is_new && finest->second <= token.divisor) continue;
      finest->second = token.divisor;
      const auto dim = std::find_if(out.dims.begin(), out.dims.end(),
                                    [&](const GroupShape::Dim& other) { return other.name == token.name; });
      dim->size = checked_mul(source.members[m].shape[d], token.divisor);
      if (token.divisor > 1) dim->size = cut.of(token.name).size.value_or(dim->size);
    }
  return out;
}

/// kMemberSize where a target member does not have as many entries as its dims ask for.
void check_entries(const std::vector<GroupMember>& members, const GroupShape& shape, std::vector<Fault>& faults) {
  for (std::size_t m = 0; m < members.size(); ++m)
    for (std::size_t d = 0; d < members[m].dims.size(); ++d) {
      const layout::MemberDim& token = members[m].dims[d];
      if (token.name.empty() || shape.members[m].restarts[d]) continue;
      const Index expected = ceil_div(shape.of(token.name).size, token.divisor);
      if (shape.members[m].shape[d] != expected)
        faults.push_back(
            {m, ErrorCode::kMemberSize,
             fmt::format("target: dim '{}' of {} has {} entries in member '{}', expected {}", token.name,
                         shape.of(token.name).size, shape.members[m].shape[d], members[m].name, expected)});
    }
}

/// Of a rule that says nothing of the source: what the manifest has of each member, and the sizes behind the group from
/// the members' true shapes, which are what one rank that has all of it would store.
std::vector<layout::TensorLayout> recorded_layouts(const UnitWork& work) {
  std::vector<layout::TensorLayout> out;
  for (const RecordedLayout* recorded : work.recorded) out.push_back(recorded->layout);
  return out;
}

GroupShape recorded_shape(const UnitWork& work, const std::vector<GroupMember>& members, const GroupCut& target) {
  std::vector<layout::StoredMember> whole;
  for (const RecordedLayout* recorded : work.recorded)
    whole.push_back({std::span(&recorded->layout.shape, 1), recorded->layout.shape});
  return layout::infer_group(members, {}, target, layout::Mesh(), whole);
}

void note_fallbacks(std::string_view side, const GroupShape& shape, const GroupCut& cut, const layout::Mesh& mesh,
                    std::vector<std::string>& fallbacks) {
  for (const GroupCut::Dim& dim : cut.dims) {
    DimCut resolved = dim.cut;
    std::vector<std::string> fallen_back;
    layout::resolve_fallbacks(resolved, shape.of(dim.name).size, fallen_back);
    for (const std::string& axis : fallen_back) fallbacks.push_back(replicate_text(side, axis, mesh));
    if (repeats(resolved, shape.of(dim.name).size))
      fallbacks.push_back(repeat_text(side, fmt::format("dim '{}'", dim.name), resolved.levels.front()));
  }
}

}  // namespace

std::vector<UnitLayout> lay_out_group(const UnitWork& work, Solution& solution) {
  const layout::Mesh& source_mesh = *work.source->mesh;
  const layout::Mesh& target_mesh = *work.target->mesh;
  const std::vector<GroupMember> source_members = members_of(work, *work.source);
  const std::vector<GroupMember> target_members = members_of(work, *work.target);
  const GroupCut source = cut_of(source_members, *work.source, work.source_present);
  const GroupCut target = cut_of(target_members, *work.target, work.target_present);
  std::vector<layout::StoredMember> stored;
  for (const Stored& member : work.stored) stored.push_back({member.by_rank, member.recorded});

  // Faults of a group are its first tensor's: the message names dim and member.
  std::string_view side = "source";
  try {
    const bool by_manifest = work.unit->tensors.front()->cut_by_manifest;
    const GroupShape shape = by_manifest ? recorded_shape(work, source_members, target)
                                         : layout::infer_group(source_members, source, target, source_mesh, stored);
    std::vector<layout::TensorLayout> from =
        by_manifest ? recorded_layouts(work) : layout::lay_out_group(source_members, shape, source, source_mesh);
    for (std::size_t m = 0; m < from.size(); ++m) check_layout(work.stored[m], from[m], m, solution.faults);
    side = "target";
    const GroupShape wanted = target_shape(target_members, source_members, shape, target);
    check_entries(target_members, wanted, solution.faults);
    if (!solution.faults.empty()) return {};
    std::vector<layout::TensorLayout> to = layout::lay_out_group(target_members, wanted, target, target_mesh);
    std::vector<UnitLayout> out;
    for (std::size_t m = 0; m < from.size(); ++m) {
      UnitLayout& unit = out.emplace_back();
      for (DimCut& cut : layout::standalone_cut(target_members[m], wanted.members[m], wanted, target, target_mesh))
        unit.target_cuts.push_back(final_cut(cut, wanted.members[m].shape[unit.target_cuts.size()], target_mesh));
      unit.source = std::move(from[m]);
      unit.target = std::move(to[m]);
    }
    note_fallbacks("source", shape, source, source_mesh, solution.fallbacks);
    note_fallbacks("target", wanted, target, target_mesh, solution.fallbacks);
    return out;
  } catch (const Error& error) {
    add_faults(error, 0, fmt::format("{}: ", side), solution.faults);
    return {};
  }
}

}  // namespace reshard::planner
