#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"
#include "reshard/layout/group.hpp"
#include "reshard/layout/infer.hpp"
#include "reshard/layout/member_layout.hpp"

namespace reshard::layout {
namespace {

// A member dim that has a name of the group.
struct Carrier {
  std::size_t member = 0;
  std::size_t dim = 0;
  Index divisor = 1;
};

[[noreturn]] void refuse(ErrorCode code, std::string message) {
  throw Error(Issue{code, "", kNoTensor, std::move(message)});
}

std::vector<Index> segments_of(const DimCut& cut) {
  std::vector<Index> out;
  if (!cut.levels.empty())
    for (const Segment& segment : cut.levels.front().segments) out.push_back(segment.size);
  return out;
}

class GroupInference {
 public:
  GroupInference(std::span<const GroupMember> members, const GroupCut& source, const GroupCut& target, const Mesh& mesh,
                 std::span<const StoredMember> stored)
      : members_(members), source_(source), target_(target), mesh_(mesh), stored_(stored) {}

  GroupShape run() {
    check_names();
    check_ranks();
    throw_issues();
    for (std::size_t m = 0; m < members_.size(); ++m) {
      GroupShape::Member& member = out_.members.emplace_back();
      member.shape.assign(members_[m].dims.size(), 0);
      member.restarts.assign(members_[m].dims.size(), false);
      for (std::size_t d = 0; d < members_[m].dims.size(); ++d) {
        const MemberDim& token = members_[m].dims[d];
        if (token.name.empty()) {
          attempt(fmt::format("dim {} of member '{}'", d, members_[m].name),
                  [&] { member.shape[d] = uncut_length(m, d); });
        } else {
          if (!carriers_.contains(token.name)) out_.dims.push_back({token.name, 0, {}});
          carriers_[token.name].push_back({m, d, token.divisor});
        }
      }
    }
    for (GroupShape::Dim& dim : out_.dims) attempt(fmt::format("dim '{}'", dim.name), [&] { find_dim(dim); });
    throw_issues();
    return std::move(out_);
  }

 private:
  template <typename Work>
  void attempt(const std::string& place, Work work) {
    try {
      work();
    } catch (const Error& error) {
      for (Issue issue : error.issues()) {
        issue.message = fmt::format("{}: {}", place, issue.message);
        issues_.push_back(std::move(issue));
      }
    }
  }

  void throw_issues() {
    if (!issues_.empty()) throw Error(std::move(issues_));
  }

  void check_names() {
    for (const GroupCut* cut : {&source_, &target_})
      for (const GroupCut::Dim& dim : cut->dims) {
        const bool known = std::any_of(members_.begin(), members_.end(), [&](const GroupMember& member) {
          return std::any_of(member.dims.begin(), member.dims.end(),
                             [&](const MemberDim& d) { return d.name == dim.name; });
        });
        if (!known)
          issues_.push_back(
              {ErrorCode::kDimRange, "", kNoTensor, fmt::format("dim '{}' is no dim of any member", dim.name)});
      }
  }

  void check_ranks() {
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const std::size_t dims = members_[m].dims.size();
      const auto wrong = [&](const Shape& shape) { return shape.size() != dims; };
      for (std::size_t rank = 0; rank < stored_[m].stored.size(); ++rank)
        if (is_present(rank) && wrong(stored_[m].stored[rank])) {
          issues_.push_back({ErrorCode::kMemberSize, "", kNoTensor,
                             fmt::format("member '{}' has {} dims on rank {}, expected {}", members_[m].name,
                                         stored_[m].stored[rank].size(), rank, dims)});
          break;
        }
      if (stored_[m].recorded && wrong(*stored_[m].recorded))
        issues_.push_back({ErrorCode::kMemberSize, "", kNoTensor,
                           fmt::format("member '{}' is recorded with {} dims, expected {}", members_[m].name,
                                       stored_[m].recorded->size(), dims)});
    }
  }

  bool is_present(std::size_t rank) const { return source_.present.empty() || source_.present[rank]; }

  std::vector<Index> lengths(std::size_t member, std::size_t dim, Index divisor) const {
    std::vector<Index> out;
    for (std::size_t rank = 0; rank < stored_[member].stored.size(); ++rank)
      out.push_back(is_present(rank) ? checked_mul(stored_[member].stored[rank][dim], divisor) : kAbsent);
    return out;
  }

  Index uncut_length(std::size_t member, std::size_t dim) const {
    const StoredMember& stored = stored_[member];
    const std::optional<Index> recorded = stored.recorded ? std::optional((*stored.recorded)[dim]) : std::nullopt;
    return infer_length(DimCut{}, mesh_, lengths(member, dim, 1), recorded);
  }

  void find_dim(GroupShape::Dim& dim) {
    const std::vector<Carrier>& carriers = carriers_[dim.name];
    DimCut cut = source_.of(dim.name);
    const DimCut& target = target_.of(dim.name);
    if (!cut.size) cut.size = target.size;
    dim.segments = segments_of(cut);
    const std::vector<Index> target_segments = segments_of(target);
    if (dim.segments.empty()) dim.segments = target_segments;
    dim.size = true_size(dim, cut, carriers);

    Index sum = 0;
    for (const Index segment : dim.segments) sum = checked_add(sum, segment);
    if (!dim.segments.empty() && sum != dim.size)
      refuse(ErrorCode::kSegmentSum, fmt::format("the segments sum to {}, but its length is {}", sum, dim.size));

    std::vector<std::string> fallen_back;
    if (auto refused = resolve_fallbacks(cut, dim.size, fallen_back, possible_blocks(dim, carriers)))
      refuse(refused->code, std::move(refused->message));
    const DimLayout elements = lay_out_dim(cut, dim.size, mesh_);
    for (const Carrier& carrier : carriers) {
      const std::string place = fmt::format("member '{}'", members_[carrier.member].name);
      if (!target_segments.empty() && target_segments != dim.segments &&
          (!starts_aligned(dim.segments, carrier.divisor) || !starts_aligned(target_segments, carrier.divisor)))
        refuse(ErrorCode::kMemberSize,
               fmt::format("{}: source and target give different segments, so the blocks of {} have no "
                           "one numbering",
                           place, carrier.divisor));
      attempt(fmt::format("dim '{}': {}", dim.name, place), [&] { find_numbering(carrier, dim, elements); });
    }
  }

  Index true_size(const GroupShape::Dim& dim, const DimCut& cut, const std::vector<Carrier>& carriers) const {
    const Carrier& finest = *std::min_element(carriers.begin(), carriers.end(),
                                              [](const Carrier& a, const Carrier& b) { return a.divisor < b.divisor; });
    if (finest.divisor > 1 && cut.size) return *cut.size;
    const std::vector<Index> told = lengths(finest.member, finest.dim, finest.divisor);
    std::optional<Index> recorded;
    for (const Carrier& carrier : carriers) {
      if (carrier.divisor != finest.divisor) continue;
      const StoredMember& stored = stored_[carrier.member];
      if (stored.recorded && !recorded) recorded = checked_mul((*stored.recorded)[carrier.dim], carrier.divisor);
      const std::vector<Index> also_told = lengths(carrier.member, carrier.dim, carrier.divisor);
      const auto [a, b] = std::mismatch(told.begin(), told.end(), also_told.begin());
      if (a != told.end())
        refuse(ErrorCode::kMemberSize, fmt::format("on rank {} member '{}' stores {}, but member '{}' stores {}",
                                                   a - told.begin(), members_[finest.member].name, *a / finest.divisor,
                                                   members_[carrier.member].name, *b / carrier.divisor));
    }
    if (finest.divisor > 1 && !dim.segments.empty()) {
      // Blocks of segments need not add up to the dim; the segments do.
      Index sum = 0;
      for (const Index segment : dim.segments) sum = checked_add(sum, segment);
      return sum;
    }
    return infer_length(cut, mesh_, told, recorded);
  }

  // Every way in which the members' blocks may be numbered.
  static std::vector<BlockNumbering> possible_blocks(const GroupShape::Dim& dim, const std::vector<Carrier>& carriers) {
    std::vector<BlockNumbering> out;
    for (const Carrier& carrier : carriers) {
      if (carrier.divisor == 1) continue;
      out.push_back(numbering(carrier.divisor, dim, false));
      if (!starts_aligned(dim.segments, carrier.divisor)) out.push_back(numbering(carrier.divisor, dim, true));
    }
    return out;
  }

  static bool starts_aligned(const std::vector<Index>& segments, Index divisor) {
    Index start = 0;
    for (const Index segment : segments) {
      if (start % divisor != 0) return false;
      start += segment;
    }
    return true;
  }

  // Entries of a member and whether its blocks are numbered anew in every segment: what the stored sizes say.
  void find_numbering(const Carrier& carrier, const GroupShape::Dim& dim, const DimLayout& elements) {
    GroupShape::Member& member = out_.members[carrier.member];
    const std::vector<Index> told = lengths(carrier.member, carrier.dim, 1);
    const bool differ = carrier.divisor > 1 && !starts_aligned(dim.segments, carrier.divisor);
    if (differ && numbering(carrier.divisor, dim, false).count() == numbering(carrier.divisor, dim, true).count())
      refuse(
          ErrorCode::kMemberSize,
          fmt::format(
              "{} blocks of {} may be numbered through the dim of {} or anew in each segment of {}, which differ",
              numbering(carrier.divisor, dim, true).count(), carrier.divisor, dim.size, fmt::join(dim.segments, ", ")));
    std::optional<Error> split;
    std::string expected;
    std::vector<bool> fitting;  // readings that store what is found
    for (const bool restarts : {true, false}) {
      if (restarts && !differ) continue;
      try {
        const DimLayout layout = member_dim(elements, carrier.divisor, dim, restarts);
        const auto rank = first_difference(layout, told);
        if (!rank) {
          fitting.push_back(restarts);
          continue;
        }
        const auto part = static_cast<std::size_t>(layout.part_of_rank[*rank]);
        expected += fmt::format("{}{}{}", expected.empty() ? "" : " or ", layout.parts[part].stored_length,
                                differ ? (restarts ? " (blocks per segment)" : " (blocks through the dim)") : "");
        if (restarts || !differ) bad_rank_ = *rank;
      } catch (const Error& error) {
        split = error;
      }
    }
    const std::optional<Shape>& recorded = stored_[carrier.member].recorded;
    const auto is_recorded = [&](bool restarts) {
      return numbering(carrier.divisor, dim, restarts).count() == (*recorded)[carrier.dim];
    };
    if (recorded && std::any_of(fitting.begin(), fitting.end(), is_recorded))
      std::erase_if(fitting, [&](bool restarts) { return !is_recorded(restarts); });
    if (fitting.size() > 1)
      refuse(
          ErrorCode::kMemberSize,
          fmt::format("with their padding, blocks of {} numbered through the dim of {} and anew in each segment of {} "
                      "are stored alike; make the segments multiples of {}",
                      carrier.divisor, dim.size, fmt::join(dim.segments, ", "), carrier.divisor));
    if (fitting.size() == 1) {
      member.shape[carrier.dim] = numbering(carrier.divisor, dim, fitting.front()).count();
      member.restarts[carrier.dim] = fitting.front();
      return;
    }
    if (split && expected.empty()) throw *split;
    refuse(ErrorCode::kMemberSize, fmt::format("rank {} stores {} entries, expected {} of the {} elements of the dim",
                                               bad_rank_, told[bad_rank_], expected, dim.size));
  }

  static std::optional<std::size_t> first_difference(const DimLayout& layout, const std::vector<Index>& told) {
    for (std::size_t rank = 0; rank < told.size(); ++rank) {
      const auto part = static_cast<std::size_t>(layout.part_of_rank[rank]);
      if (told[rank] != kAbsent && told[rank] != layout.parts[part].stored_length) return rank;
    }
    return std::nullopt;
  }

  std::span<const GroupMember> members_;
  const GroupCut& source_;
  const GroupCut& target_;
  const Mesh& mesh_;
  std::span<const StoredMember> stored_;
  GroupShape out_;
  std::map<std::string, std::vector<Carrier>> carriers_;
  std::vector<Issue> issues_;
  std::size_t bad_rank_ = 0;
};

}  // namespace

GroupShape infer_group(std::span<const GroupMember> members, const GroupCut& source, const GroupCut& target,
                       const Mesh& mesh, std::span<const StoredMember> stored) {
  return GroupInference(members, source, target, mesh, stored).run();
}

}  // namespace reshard::layout
