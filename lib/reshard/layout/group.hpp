#pragma once
// Groups: a weight and its companions, cut by one logical partition (plan format section 8, layouts reference section
// 10). Dims are named; a member has entries per element (`name`), per block of k elements (`name/k`), or a dim that is
// never cut (`.`). The group is atomic: all members are cut alike, or the group is refused.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"
#include "reshard/layout/tensor_layout.hpp"

namespace reshard::layout {

/// `name/divisor`; an empty name is a dim that is never cut.
struct MemberDim {
  std::string name;
  Index divisor = 1;

  friend bool operator==(const MemberDim&, const MemberDim&) = default;
};

struct GroupMember {
  std::string name;  ///< for messages: its suffix
  std::vector<MemberDim> dims;
};

/// How one side cuts the named dims of a group, axis sizes bound to its mesh. Dims without an entry are whole.
struct GroupCut {
  struct Dim {
    std::string name;
    DimCut cut;
  };
  std::vector<Dim> dims;
  std::vector<bool> present;  ///< ranks that have the group; empty: every rank

  /// The cut of a dim; an empty one where the dim has no entry.
  const DimCut& of(const std::string& name) const;
};

/// The true sizes behind a group.
struct GroupShape {
  struct Dim {
    std::string name;
    Index size = 0;
    std::vector<Index> segments;  ///< of the dim, where either side gives them
  };
  struct Member {
    Shape shape;                 ///< in the member's own entries
    std::vector<bool> restarts;  ///< by dim: block numbering restarts in every segment
  };
  std::vector<Dim> dims;        ///< in order of first use
  std::vector<Member> members;  ///< as the group's members

  const Dim& of(const std::string& name) const;
};

/// What the source has of one member.
struct StoredMember {
  std::span<const Shape> stored;  ///< by rank; ranks without the group are skipped
  std::optional<Shape> recorded;  ///< true shape where the checkpoint records it
};

/// Sizes and block numbering from what the source stores. `target` gives `size` and `segments` where `source` does not.
/// A dim that only `name/k` members carry has size stored x k, unless `size` is given.
/// Errors (of all dims and members): those of infer_length, kMemberSize (members disagree on a dim, a stored size that
/// is no count of blocks, ambiguous numbering), kUnitSplit, kDimRange (a cut names a dim that no member has).
GroupShape infer_group(std::span<const GroupMember> members, const GroupCut& source, const GroupCut& target,
                       const Mesh& mesh, std::span<const StoredMember> stored);

/// One layout per member. Errors (of all dims and members): those of cut_dim with the dim's name, kUnitSplit where a
/// boundary cuts a block of a member, kMemberSize, kDimRange.
std::vector<TensorLayout> lay_out_group(std::span<const GroupMember> members, const GroupShape& shape,
                                        const GroupCut& cut, const Mesh& mesh);

/// A cut of one member on its own, in its own entries, that stores it exactly as lay_out_group does: what a manifest
/// records. One DimCut per dim of the member. Errors: kUnsupported where no cut of a single tensor says the same.
std::vector<DimCut> standalone_cut(const GroupMember& member, const GroupShape::Member& member_shape,
                                   const GroupShape& shape, const GroupCut& cut, const Mesh& mesh);

}  // namespace reshard::layout
