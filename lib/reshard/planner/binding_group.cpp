#include "reshard/planner/binding_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/layout/blocks.hpp"
#include "reshard/layout/infer.hpp"
#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {

using layout::BlockNumbering;
using layout::DimCut;
using layout::DimLayout;
using layout::DimShard;

namespace {

constexpr Index kMaxNamedSize = 128;

/// Where a named dim occurs in the group.
struct DimUse {
  std::size_t tensor = 0;
  std::size_t position = 0;
  Index divisor = 1;
};

struct NamedDim {
  std::string name;
  std::vector<DimUse> uses;  ///< the smallest divisor first: that one tells the length
  DimCut cut;
  Index length = 0;
  std::vector<Index> segments;  ///< where block numbering may restart; empty: nowhere
  DimLayout layout;
};

/// The dims of one side, in order of first appearance.
struct GroupSide {
  std::string_view name;  ///< "source" or "target"
  const SidePlacement* placement = nullptr;
  std::vector<const plan::Member*> members;  ///< by tensor of the unit
  std::vector<NamedDim> dims;
  std::vector<std::string> fallen_back;

  const NamedDim* find(std::string_view dim) const {
    for (const NamedDim& known : dims)
      if (known.name == dim) return &known;
    return nullptr;
  }
};

std::string dim_text(const NamedDim& dim) {
  return fmt::format("dim '{}'", dim.name);
}

/// Sizes of the fused parts that the first axis cuts one by one.
std::vector<Index> fused_parts(const DimCut& cut, Index length) {
  std::vector<Index> out;
  if (cut.levels.empty()) return out;
  const layout::Level& first = cut.levels.front();
  for (const layout::Segment& segment : first.segments) out.push_back(segment.size);
  if (first.stride > 1 && length % first.stride == 0)
    out.assign(static_cast<std::size_t>(first.stride), length / first.stride);
  if (std::accumulate(out.begin(), out.end(), Index{0}) != length) out.clear();
  return out;
}

class GroupWork {
 public:
  GroupWork(const UnitWork& work, Solution& solution) : work_(work), solution_(solution) {
    source_.name = "source";
    source_.placement = work.source;
    target_.name = "target";
    target_.placement = work.target;
  }

  std::vector<UnitLayout> run() {
    if (!find_members() || !find_dims(source_) || !find_dims(target_) || !share_sizes()) return {};
    if (!infer_lengths() || !lay_out_dims(source_)) return {};
    for (std::size_t tensor = 0; tensor < work_.stored.size(); ++tensor) add_source(tensor);
    if (!ok() || !derive_lengths() || !lay_out_dims(target_)) return {};
    for (std::size_t tensor = 0; tensor < work_.stored.size(); ++tensor) add_target(tensor);
    return ok() ? std::move(out_) : std::vector<UnitLayout>{};
  }

 private:
  bool ok() const { return solution_.faults.empty(); }
  void fault(std::size_t tensor, ErrorCode code, std::string message) {
    solution_.faults.push_back({tensor, code, std::move(message)});
  }
  const std::string& suffix(std::size_t tensor) const { return source_.members[tensor]->suffix; }

  bool find_members() {
    for (std::size_t tensor = 0; tensor < work_.unit->tensors.size(); ++tensor) {
      source_.members.push_back(&work_.source->placement->members[work_.unit->tensors[tensor]->member]);
      const auto& members = work_.target->placement->members;
      const auto found = std::find_if(members.begin(), members.end(),
                                      [&](const plan::Member& member) { return member.suffix == suffix(tensor); });
      if (found == members.end()) {
        fault(tensor, ErrorCode::kGroupIncomplete,
              fmt::format("the target's `members` have no '{}', the source's do", suffix(tensor)));
        return false;
      }
      target_.members.push_back(&*found);
    }
    return true;
  }

  bool find_dims(GroupSide& side) {
    for (std::size_t tensor = 0; tensor < side.members.size(); ++tensor) {
      const plan::Member& member = *side.members[tensor];
      if (member.dims.size() != work_.stored[tensor].rank_of_tensor) {
        fault(tensor, ErrorCode::kMemberSize,
              fmt::format("member '{}' has {} dims in the plan and {} in the source", member.suffix, member.dims.size(),
                          work_.stored[tensor].rank_of_tensor));
        continue;
      }
      for (std::size_t position = 0; position < member.dims.size(); ++position) {
        const plan::MemberDim& token = member.dims[position];
        if (token.name.empty()) continue;
        auto known = std::find_if(side.dims.begin(), side.dims.end(),
                                  [&](const NamedDim& dim) { return dim.name == token.name; });
        if (known == side.dims.end()) {
          side.dims.push_back({token.name, {}, {}, 0, {}, {}});
          known = side.dims.end() - 1;
        }
        known->uses.push_back({tensor, position, token.divisor});
      }
    }
    for (NamedDim& dim : side.dims) {
      std::stable_sort(dim.uses.begin(), dim.uses.end(),
                       [](const DimUse& a, const DimUse& b) { return a.divisor < b.divisor; });
      for (const plan::DimRule& rule : side.placement->shard)
        if (rule.dim == dim.name) dim.cut = rule.cut;
    }
    return ok();
  }

  bool share_sizes() {
    for (NamedDim& dim : source_.dims) {
      for (NamedDim& other : target_.dims) {
        if (other.name != dim.name) continue;
        std::optional<Index>& a = dim.cut.size;
        std::optional<Index>& b = other.cut.size;
        if (a && b && *a != *b)
          fault(dim.uses.front().tensor, ErrorCode::kShape,
                fmt::format("{}: `size` is {} on the source and {} on the target", dim_text(dim), *a, *b));
        if (!a) a = b;
        if (!b) b = a;
      }
    }
    return ok();
  }

  /// The source's true lengths, from the shards of the member that counts the dim most finely.
  bool infer_lengths() {
    for (NamedDim& dim : source_.dims) {
      const DimUse& use = dim.uses.front();
      if (use.divisor > 1 && dim.cut.size) {
        dim.length = *dim.cut.size;
        continue;
      }
      const Stored& stored = work_.stored[use.tensor];
      std::vector<Index> lengths;
      for (std::size_t rank = 0; rank < stored.present.size(); ++rank)
        lengths.push_back(stored.present[rank] ? checked_mul(stored.by_rank[rank][use.position], use.divisor)
                                               : layout::kAbsent);
      std::optional<Index> recorded;
      if (stored.recorded) recorded = checked_mul((*stored.recorded)[use.position], use.divisor);
      try {
        dim.length = layout::infer_length(dim.cut, *source_.placement->mesh, lengths, recorded);
      } catch (const Error& error) {
        for (const Issue& issue : error.issues())
          fault(use.tensor, issue.code, fmt::format("source: {}: {}", dim_text(dim), issue.message));
      }
    }
    return ok();
  }

  /// The target's lengths: a dim of the source, or, under a name of its own, what its finest member has.
  bool derive_lengths() {
    for (NamedDim& dim : target_.dims) {
      const DimUse& use = dim.uses.front();
      const Index stored = out_[use.tensor].source.shape[use.position];
      if (const NamedDim* source = source_.find(dim.name)) {
        dim.length = source->length;
        dim.segments = source->segments;
      } else {
        dim.length = use.divisor > 1 && dim.cut.size ? *dim.cut.size : checked_mul(stored, use.divisor);
      }
      if (dim.cut.size && *dim.cut.size != dim.length)
        fault(use.tensor, ErrorCode::kShape,
              fmt::format("{}: `size` is {}, the source has {}", dim_text(dim), *dim.cut.size, dim.length));
    }
    return ok();
  }

  /// Applies fallbacks and cuts the named dims.
  bool lay_out_dims(GroupSide& side) {
    for (NamedDim& dim : side.dims) {
      if (dim.segments.empty()) dim.segments = fused_parts(dim.cut, dim.length);
      if (dim.segments.empty())
        for (const NamedDim& other : target_.dims)
          if (other.name == dim.name) dim.segments = fused_parts(other.cut, dim.length);
      std::vector<std::string> fallen_back;
      if (const auto refused = layout::resolve_fallbacks(dim.cut, dim.length, fallen_back)) {
        fault(dim.uses.front().tensor, refused->code,
              fmt::format("{}: {}: {}", side.name, dim_text(dim), refused->message));
        continue;
      }
      dim.layout = layout::lay_out_dim(dim.cut, dim.length, *side.placement->mesh);
      for (const std::string& axis : fallen_back) solution_.fallbacks.push_back(replicate_text(side.name, axis));
      if (repeats(dim.cut, dim.length))
        solution_.fallbacks.push_back(repeat_text(side.name, dim_text(dim), dim.cut.levels.front()));
      side.fallen_back.insert(side.fallen_back.end(), fallen_back.begin(), fallen_back.end());
    }
    return ok();
  }

  static DimLayout in_blocks(const DimLayout& dim, const BlockNumbering& numbering) {
    DimLayout out;
    std::vector<std::int32_t> new_part;  // parts of padding that differ in elements may be equal in blocks
    for (const DimShard& part : dim.parts) {
      DimShard blocks = numbering.to_blocks(part);
      const auto known = std::find(out.parts.begin(), out.parts.end(), blocks);
      new_part.push_back(static_cast<std::int32_t>(known - out.parts.begin()));
      if (known == out.parts.end()) out.parts.push_back(std::move(blocks));
    }
    for (const std::int32_t part : dim.part_of_rank)
      out.part_of_rank.push_back(new_part[static_cast<std::size_t>(part)]);
    return out;
  }

  std::optional<Index> split_at(const DimLayout& dim, const BlockNumbering& numbering) const {
    for (const DimShard& part : dim.parts)
      if (const auto boundary = numbering.split_at(part)) return boundary;
    return std::nullopt;
  }

  /// The first present rank that does not store what the layout says.
  std::optional<Index> wrong_rank(const Stored& stored, std::size_t position, const DimLayout& layout) const {
    for (std::size_t rank = 0; rank < stored.present.size(); ++rank)
      if (stored.present[rank] && stored.by_rank[rank][position] !=
                                      layout.parts[static_cast<std::size_t>(layout.part_of_rank[rank])].stored_length)
        return static_cast<Index>(rank);
    return std::nullopt;
  }

  /// Block numbering that restarts with every fused part, or runs through; both where they give the same blocks.
  std::vector<BlockNumbering> numberings(const NamedDim& dim, std::size_t tensor, Index divisor) {
    std::vector<BlockNumbering> out;
    const BlockNumbering through(dim.length, divisor);
    bool same = true;
    for (std::size_t i = 0; i + 1 < dim.segments.size(); ++i) same = same && dim.segments[i] % divisor == 0;
    if (!same) {
      out.emplace_back(dim.length, divisor, dim.segments);
      if (out.front().count() == through.count())
        fault(tensor, ErrorCode::kMemberSize,
              fmt::format(
                  "{} of {} in parts [{}] has {} blocks of {} whether numbering restarts with each part or not, but "
                  "different ones: which is meant cannot be told",
                  dim_text(dim), dim.length, fmt::join(dim.segments, ", "), through.count(), divisor));
    }
    out.push_back(through);
    return out;
  }

  void fault_split(const GroupSide& side, const NamedDim& dim, const DimUse& use, Index boundary) {
    std::string message = fmt::format("{}: {} of {} is cut at {}, inside a block of {} of member '{}'", side.name,
                                      dim_text(dim), dim.length, boundary, use.divisor, suffix(use.tensor));
    std::vector<Index> divisors;
    for (const DimUse& other : dim.uses) divisors.push_back(other.divisor);
    const auto active = std::count_if(dim.cut.levels.begin(), dim.cut.levels.end(),
                                      [](const layout::Level& level) { return level.axis_size > 1; });
    const layout::Level& first = dim.cut.levels.front();
    if (active == 1 && first.axis_size > 1 && first.split != layout::Split::kShares)
      message += fmt::format("; legal sizes of '{}': {}", first.axis,
                             fmt::join(layout::legal_axis_sizes(first, dim.length, kMaxNamedSize, divisors), ", "));
    fault(use.tensor, ErrorCode::kUnitSplit, std::move(message));
  }

  void fault_size(const NamedDim& dim, const DimUse& use, Index rank, const DimLayout& expected) {
    const auto slot = static_cast<std::size_t>(rank);
    const bool is_first = use.tensor == dim.uses.front().tensor && use.position == dim.uses.front().position;
    fault(use.tensor, is_first ? ErrorCode::kShape : ErrorCode::kMemberSize,
          fmt::format("{} of {}{}: rank {} stores {} of member '{}', expected {}", dim_text(dim), dim.length,
                      use.divisor > 1 ? fmt::format(" in blocks of {}", use.divisor) : "", rank,
                      work_.stored[use.tensor].by_rank[slot][use.position], suffix(use.tensor),
                      expected.parts[static_cast<std::size_t>(expected.part_of_rank[slot])].stored_length));
  }

  /// One dim of a source member, checked against what the ranks store.
  void add_source_dim(const NamedDim& dim, const DimUse& use, layout::TensorLayout& out) {
    const Stored& stored = work_.stored[use.tensor];
    if (use.divisor == 1) {
      if (const auto rank = wrong_rank(stored, use.position, dim.layout)) fault_size(dim, use, *rank, dim.layout);
      out.shape[use.position] = dim.length;
      out.dims[use.position] = dim.layout;
      return;
    }
    const std::vector<BlockNumbering> candidates = numberings(dim, use.tensor, use.divisor);
    std::optional<Index> boundary;
    std::optional<DimLayout> unlike;
    for (const BlockNumbering& numbering : candidates) {
      const auto split = split_at(dim.layout, numbering);
      if (split) {
        if (!boundary) boundary = split;
        continue;
      }
      DimLayout blocks = in_blocks(dim.layout, numbering);
      if (wrong_rank(stored, use.position, blocks)) {
        if (!unlike) unlike = std::move(blocks);
        continue;
      }
      out.shape[use.position] = numbering.count();
      out.dims[use.position] = std::move(blocks);
      return;
    }
    if (unlike) {
      fault_size(dim, use, *wrong_rank(stored, use.position, *unlike), *unlike);
    } else {
      fault_split(source_, dim, use, *boundary);
    }
  }

  /// A tensor with every dim whole.
  layout::TensorLayout whole(const Shape& shape, const GroupSide& side, const std::vector<bool>& present) const {
    return layout::lay_out(shape, {std::vector<DimCut>(shape.size()), present}, *side.placement->mesh);
  }

  void add_source(std::size_t tensor) {
    const Stored& stored = work_.stored[tensor];
    const auto first = static_cast<std::size_t>(std::find(stored.present.begin(), stored.present.end(), true) -
                                                stored.present.begin());
    UnitLayout unit;
    unit.source = whole(stored.by_rank[first], source_, work_.source_present);
    unit.source.fallen_back = source_.fallen_back;
    const std::size_t before = solution_.faults.size();
    for (const NamedDim& dim : source_.dims)
      for (const DimUse& use : dim.uses)
        if (use.tensor == tensor) add_source_dim(dim, use, unit.source);
    if (solution_.faults.size() == before) check_layout(stored, unit.source, tensor, solution_.faults);
    out_.push_back(std::move(unit));
  }

  void add_target_dim(const NamedDim& dim, const DimUse& use, UnitLayout& out) {
    const layout::Mesh& mesh = *target_.placement->mesh;
    const Index entries = out.source.shape[use.position];
    const DimCut cut = final_cut(dim.cut, dim.length, mesh);
    if (use.divisor == 1) {
      if (dim.length != entries)
        fault(use.tensor, ErrorCode::kMemberSize,
              fmt::format("target: {} has {} elements, member '{}' {}", dim_text(dim), dim.length, suffix(use.tensor),
                          entries));
      out.target.dims[use.position] = dim.layout;
      out.target_cuts[use.position] = cut;
      return;
    }
    for (const BlockNumbering& numbering : numberings(dim, use.tensor, use.divisor)) {
      if (numbering.count() != entries) continue;
      if (const auto boundary = split_at(dim.layout, numbering)) return fault_split(target_, dim, use, *boundary);
      out.target.dims[use.position] = in_blocks(dim.layout, numbering);
      try {
        out.target_cuts[use.position] =
            block_cut(cut, dim.length, use.divisor, out.target.dims[use.position], entries, mesh);
      } catch (const Error& error) {
        for (const Issue& issue : error.issues())
          fault(use.tensor, issue.code, fmt::format("target: {}: {}", dim_text(dim), issue.message));
      }
      return;
    }
    fault(use.tensor, ErrorCode::kMemberSize,
          fmt::format("target: {} of {} in blocks of {}: member '{}' has {}", dim_text(dim), dim.length, use.divisor,
                      suffix(use.tensor), entries));
  }

  void add_target(std::size_t tensor) {
    UnitLayout& unit = out_[tensor];
    unit.target = whole(unit.source.shape, target_, work_.target_present);
    unit.target.fallen_back = target_.fallen_back;
    unit.target_cuts.resize(unit.source.shape.size());
    for (const NamedDim& dim : target_.dims)
      for (const DimUse& use : dim.uses)
        if (use.tensor == tensor) add_target_dim(dim, use, unit);
  }

  const UnitWork& work_;
  Solution& solution_;
  GroupSide source_;
  GroupSide target_;
  std::vector<UnitLayout> out_;
};

}  // namespace

std::vector<UnitLayout> lay_out_group(const UnitWork& work, Solution& solution) {
  return GroupWork(work, solution).run();
}

}  // namespace reshard::planner
