#include "reshard/layout/member_layout.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"

namespace reshard::layout {
BlockNumbering numbering(Index divisor, const GroupShape::Dim& dim, bool restarts) {
  return restarts ? BlockNumbering(dim.size, divisor, dim.segments) : BlockNumbering(dim.size, divisor);
}

DimLayout member_dim(const DimLayout& elements, Index divisor, const GroupShape::Dim& dim, bool restarts) {
  if (divisor == 1) return elements;
  const BlockNumbering blocks = numbering(divisor, dim, restarts);
  DimLayout out;
  std::map<DimShard, std::int32_t> known;  // parts that differ in elements may be equal in blocks: padding only
  std::vector<std::int32_t> renumbered;
  for (const DimShard& part : elements.parts) {
    if (const auto boundary = blocks.split_at(part))
      throw Error(
          Issue{ErrorCode::kUnitSplit, "", kNoTensor,
                fmt::format("a boundary at {} cuts a block of {}; boundaries must be multiples of {}{} or end the {}",
                            *boundary, divisor, divisor, restarts ? " from the beginning of their segment" : "",
                            restarts ? "segment" : "dim")});
    DimShard shard = blocks.to_blocks(part);
    const Index expected = ceil_div(part.stored_length, divisor);
    if (!part.pads.empty() && shard.stored_length != expected)
      throw Error(Issue{ErrorCode::kMemberSize, "", kNoTensor,
                        fmt::format("a padded shard of {} elements holds {} blocks of {}, expected {}",
                                    part.stored_length, shard.stored_length, divisor, expected)});
    const auto [entry, added] = known.try_emplace(shard, static_cast<std::int32_t>(out.parts.size()));
    if (added) out.parts.push_back(std::move(shard));
    renumbered.push_back(entry->second);
  }
  for (const std::int32_t part : elements.part_of_rank)
    out.part_of_rank.push_back(renumbered[static_cast<std::size_t>(part)]);
  return out;
}

}  // namespace reshard::layout
