#include "reshard/layout/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"
#include "reshard/layout/blocks.hpp"
#include "reshard/layout/legal_sizes.hpp"
#include "reshard/layout/member_layout.hpp"

namespace reshard::layout {
namespace {

const DimCut kWhole;

std::string names_of(const GroupShape& shape) {
  std::vector<std::string> names;
  for (const GroupShape::Dim& dim : shape.dims) names.push_back(dim.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// The numberings of all members on a dim.
std::vector<BlockNumbering> blocks_of(std::span<const GroupMember> members, const GroupShape& shape,
                                      const GroupShape::Dim& dim) {
  std::vector<BlockNumbering> out;
  for (std::size_t m = 0; m < members.size(); ++m)
    for (std::size_t d = 0; d < members[m].dims.size(); ++d)
      if (const MemberDim& token = members[m].dims[d]; token.name == dim.name && token.divisor > 1)
        out.push_back(numbering(token.divisor, dim, shape.members[m].restarts[d]));
  return out;
}

// Of a dim whose blocks a boundary cuts. Which axis made the boundary is known only where one cuts.
std::string legal_sizes(const DimCut& cut, Index length, std::span<const BlockNumbering> blocks) {
  return cut.levels.size() == 1 ? legal_sizes_text(cut.levels.front(), length, blocks) : std::string();
}

}  // namespace

const DimCut& GroupCut::of(const std::string& name) const {
  for (const Dim& dim : dims)
    if (dim.name == name) return dim.cut;
  return kWhole;
}

const GroupShape::Dim& GroupShape::of(const std::string& name) const {
  for (const Dim& dim : dims)
    if (dim.name == name) return dim;
  internal_error(fmt::format("no size is known of dim '{}' of a group", name));
}

std::vector<TensorLayout> lay_out_group(std::span<const GroupMember> members, const GroupShape& shape,
                                        const GroupCut& cut, const Mesh& mesh) {
  std::vector<Issue> issues;
  const auto add = [&](const std::string& place, Issue issue) {
    issue.message = fmt::format("{}: {}", place, issue.message);
    issues.push_back(std::move(issue));
  };
  for (const GroupCut::Dim& dim : cut.dims)
    if (std::none_of(shape.dims.begin(), shape.dims.end(),
                     [&](const GroupShape::Dim& d) { return d.name == dim.name; }))
      issues.push_back({ErrorCode::kDimRange, "", kNoTensor,
                        fmt::format("dim '{}' is no dim of the group, which has {}", dim.name, names_of(shape))});

  std::vector<std::string> fallen_back;
  std::map<std::string, DimLayout> elements;
  for (const GroupShape::Dim& dim : shape.dims) {
    DimCut resolved = cut.of(dim.name);
    const std::string place = fmt::format("dim '{}'", dim.name);
    if (resolved.size && *resolved.size != dim.size) {
      add(place, {ErrorCode::kShape, "", kNoTensor,
                  fmt::format("the plan gives size {}, but its length is {}", *resolved.size, dim.size)});
    } else if (auto refused = resolve_fallbacks(resolved, dim.size, fallen_back, blocks_of(members, shape, dim))) {
      add(place, {refused->code, "", kNoTensor, refused->message});
    } else {
      elements.emplace(dim.name, lay_out_dim(resolved, dim.size, mesh));
    }
  }
  if (!issues.empty()) throw Error(std::move(issues));

  std::vector<TensorLayout> out;
  for (std::size_t m = 0; m < members.size(); ++m) {
    TensorLayout& layout = out.emplace_back();
    layout.shape = shape.members[m].shape;
    layout.ranks = mesh.size();
    layout.present = cut.present;
    layout.fallen_back = fallen_back;
    for (std::size_t d = 0; d < members[m].dims.size(); ++d) {
      const MemberDim& token = members[m].dims[d];
      if (token.name.empty()) {
        layout.dims.push_back(lay_out_dim(kWhole, layout.shape[d], mesh));
        continue;
      }
      const GroupShape::Dim& dim = shape.of(token.name);
      try {
        layout.dims.push_back(member_dim(elements.at(token.name), token.divisor, dim, shape.members[m].restarts[d]));
      } catch (const Error& error) {
        for (Issue issue : error.issues()) {
          if (issue.code == ErrorCode::kUnitSplit)
            issue.message += legal_sizes(cut.of(dim.name), dim.size, blocks_of(members, shape, dim));
          add(fmt::format("dim '{}' of member '{}'", dim.name, members[m].name), std::move(issue));
        }
      }
    }
  }
  if (!issues.empty()) throw Error(std::move(issues));
  return out;
}

}  // namespace reshard::layout
