#include "reshard/planner/binding_recorded.hpp"

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "reshard/plan/canonical.hpp"

namespace reshard::planner {
namespace {

constexpr std::string_view kByRecord = "the source's manifest places it";

std::string both_placements(const UnitWork& work, std::size_t tensor) {
  return fmt::format("{} as {}, the rule as {}", kByRecord, work.recorded[tensor]->text,
                     canonical_json(plan::placement_value(*work.source->placement)));
}

bool same_elements(const layout::DimLayout& a, const layout::DimLayout& b, const layout::TensorLayout& present) {
  std::set<std::pair<std::int32_t, std::int32_t>> known;
  for (Index rank = 0; rank < present.ranks; ++rank) {
    if (!present.is_present(rank)) continue;
    const auto slot = static_cast<std::size_t>(rank);
    const std::int32_t part_a = a.part_of_rank[slot];
    const std::int32_t part_b = b.part_of_rank[slot];
    if (!known.emplace(part_a, part_b).second) continue;
    const layout::DimShard& shard_a = a.parts[static_cast<std::size_t>(part_a)];
    const layout::DimShard& shard_b = b.parts[static_cast<std::size_t>(part_b)];
    if (shard_a.runs != shard_b.runs || shard_a.stored_length != shard_b.stored_length) return false;
  }
  return true;
}

bool same_elements(const layout::TensorLayout& a, const layout::TensorLayout& b) {
  if (a.shape != b.shape || a.ranks != b.ranks) return false;
  for (Index rank = 0; rank < a.ranks; ++rank)
    if (a.is_present(rank) != b.is_present(rank)) return false;
  for (std::size_t dim = 0; dim < a.dims.size(); ++dim)
    if (!same_elements(a.dims[dim], b.dims[dim], a)) return false;
  return true;
}

}  // namespace

layout::TensorLayout recorded_source(const UnitWork& work, const layout::TensorCut& source,
                                     std::vector<Fault>& faults) {
  const RecordedLayout& recorded = *work.recorded.front();
  const Shape& shape = recorded.layout.shape;
  for (std::size_t dim = 0; dim < shape.size(); ++dim)
    if (source.dims[dim].size && *source.dims[dim].size != shape[dim])
      faults.push_back({0, ErrorCode::kShape,
                        fmt::format("dim {}: `size` is {}, the source's manifest says {}", dim, *source.dims[dim].size,
                                    shape[dim])});
  if (work.unit->tensors.front()->cut_by_manifest) return recorded.layout;
  try {
    return layout::lay_out(shape, source, *work.source->mesh);
  } catch (const Error& error) {
    std::vector<Fault> why;
    add_faults(error, 0, "", why);
    faults.push_back({0, ErrorCode::kShape,
                      fmt::format("{}, which cannot cut it: {}", both_placements(work, 0), why.front().message)});
    return recorded.layout;
  }
}

void check_recorded(const UnitWork& work, const layout::TensorLayout& source, std::size_t tensor,
                    std::vector<Fault>& faults) {
  if (work.recorded[tensor] == nullptr || same_elements(source, work.recorded[tensor]->layout)) return;
  faults.push_back(
      {tensor, ErrorCode::kShape,
       fmt::format("{}; a rule that says nothing of the source takes the manifest's", both_placements(work, tensor))});
}

void name_recorded(const UnitWork& work, std::vector<Fault>& faults) {
  if (work.unit->tensors.front()->cut_by_manifest) return;
  for (Fault& fault : faults) {
    if (work.recorded[fault.tensor] == nullptr) continue;
    if (fault.code != ErrorCode::kShape && fault.code != ErrorCode::kMissing) continue;
    if (fault.message.starts_with(kByRecord)) continue;
    fault.code = ErrorCode::kShape;
    fault.message += fmt::format("; {}", both_placements(work, fault.tensor));
  }
}

}  // namespace reshard::planner
