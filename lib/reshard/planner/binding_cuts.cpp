#include "reshard/planner/binding_cuts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "reshard/base/checked.hpp"

namespace reshard::planner {

using layout::DimCut;
using layout::DimLayout;
using layout::Level;

namespace {

std::optional<Index> parsed(const std::string& text) {
  Index number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Index padded_total(const DimCut& cut, Index length) {
  if (!cut.pad_total) return length;
  const Index multiple = checked_mul(*cut.pad_total, cut.levels.empty() ? 1 : cut.levels.front().axis_size);
  return checked_mul(ceil_div(length, multiple), multiple);
}

bool lays_out_as(const DimCut& cut, Index length, const layout::Mesh& mesh, const DimLayout& wanted) {
  DimCut trial = cut;
  std::vector<std::string> fallen_back;
  if (layout::resolve_fallbacks(trial, length, fallen_back)) return false;
  return fallen_back.empty() && layout::lay_out_dim(trial, length, mesh) == wanted;
}

/// A level in blocks. Its boundaries are known to be block boundaries, so an even cut needs no unit.
Level level_in_blocks(const Level& level, Index divisor, Index block_count) {
  const auto blocks_of_unit = [&](Index unit) {
    return unit % divisor == 0 ? unit / divisor : unit > divisor ? std::min(ceil_div(unit, divisor), block_count) : 1;
  };
  Level out = level;
  out.unit = blocks_of_unit(level.unit);
  for (layout::Segment& segment : out.segments) {
    segment.size = ceil_div(segment.size, divisor);
    if (segment.unit) segment.unit = blocks_of_unit(*segment.unit);
  }
  if (level.layout == layout::SequenceLayout::kStriped) out.block = ceil_div(level.block, divisor);
  return out;
}

/// The block counts of all coordinates, written as shares: fits any single cut into consecutive pieces.
Level explicit_shares(const Level& level, const DimLayout& blocks, const layout::Mesh& mesh) {
  Level out;
  out.axis = level.axis;
  out.axis_size = level.axis_size;
  out.split = layout::Split::kShares;
  out.shares.assign(static_cast<std::size_t>(level.axis_size), 0);
  for (Index rank = 0; rank < mesh.size(); ++rank) {
    const auto part = static_cast<std::size_t>(blocks.part_of_rank[static_cast<std::size_t>(rank)]);
    out.shares[static_cast<std::size_t>(mesh.coordinate(rank, level.axis))] = blocks.parts[part].true_length();
  }
  return out;
}

}  // namespace

std::vector<DimCut> cuts_by_position(const std::vector<plan::DimRule>& shard, std::size_t dims) {
  std::vector<DimCut> out(dims);
  std::vector<const plan::DimRule*> taken(dims, nullptr);
  std::vector<Issue> issues;
  const auto count = static_cast<Index>(dims);
  for (const plan::DimRule& rule : shard) {
    const std::optional<Index> dim = parsed(rule.dim);
    if (!dim || *dim < -count || *dim >= count) {
      issues.push_back({ErrorCode::kDimRange, "", "",
                        count == 0 ? fmt::format("dim {} of a scalar, which has no dims to cut", rule.dim)
                                   : fmt::format("dim {} of a tensor with {} dims, expected {} to {}", rule.dim, count,
                                                 -count, count - 1)});
      continue;
    }
    const auto position = static_cast<std::size_t>(*dim < 0 ? *dim + count : *dim);
    if (taken[position]) {
      issues.push_back({ErrorCode::kDimDup, "", "",
                        fmt::format("keys {} and {} are the same dim of a tensor with {} dims", taken[position]->dim,
                                    rule.dim, count)});
      continue;
    }
    taken[position] = &rule;
    out[position] = rule.cut;
  }
  if (!issues.empty()) throw Error(std::move(issues));
  return out;
}

void PackedNumbers::fill(DimCut& cut) {
  for (Level& level : cut.levels) {
    if (!level.packed) continue;
    layout::PackedSequences& packed = *level.packed;
    if (!packed.cu_seqlens_tensor.empty()) packed.cu_seqlens = read(packed.cu_seqlens_tensor);
    if (!packed.cu_seqlens_padded_tensor.empty()) packed.cu_seqlens_padded = read(packed.cu_seqlens_padded_tensor);
    packed.cu_seqlens_tensor.clear();
    packed.cu_seqlens_padded_tensor.clear();
  }
}

const std::vector<Index>& PackedNumbers::read(const std::string& name) {
  const auto known = known_.find(name);
  if (known != known_.end()) return known->second;
  const auto refuse = [&](ErrorCode code, const std::string& message) -> Error {
    return Error(Issue{code, "", "", fmt::format("cu_seqlens tensor '{}' {}", name, message)});
  };
  const auto& tensors = catalog_->tensors;
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const SourceTensor& tensor, const std::string& key) { return tensor.name < key; });
  if (found == tensors.end() || found->name != name || found->stored.empty())
    throw refuse(ErrorCode::kMissing, "is not in the source");
  const StoredRun& first = found->stored.front();
  for (const StoredRun& run : found->stored)
    if (run.dtype != first.dtype || run.shape != first.shape)
      throw refuse(ErrorCode::kSeqLayout, "differs between ranks; it must be whole on every rank that has it");
  if (first.shape.size() != 1 || (first.dtype != Dtype::kI32 && first.dtype != Dtype::kI64))
    throw refuse(ErrorCode::kSeqLayout, fmt::format("is {} with {} dims, expected a vector of i32 or i64",
                                                    reshard::name(first.dtype), first.shape.size()));
  return known_.emplace(name, (*numbers_)(*found)).first->second;
}

DimCut final_cut(const DimCut& cut, Index length, const layout::Mesh& mesh) {
  DimCut plain = cut;
  plain.size.reset();
  DimCut out = plain;
  std::erase_if(out.levels, [](const Level& level) { return level.axis_size == 1; });
  for (Level& level : out.levels) {
    if (level.fallback == layout::Fallback::kReplicate) level.fallback = layout::Fallback::kError;
    for (layout::Segment& segment : level.segments)
      if (segment.fallback == layout::Fallback::kReplicate) segment.fallback = layout::Fallback::kError;
  }
  if (out.levels.empty() && !out.pad_total) return {};
  // `pad_total` counts in units of the first axis: where that one is left out the same total has another divisor.
  const Index first_size = out.levels.empty() ? 1 : out.levels.front().axis_size;
  const Index total = padded_total(cut, length);
  if (out.pad_total && padded_total(out, length) != total) out.pad_total = total / first_size;
  if (lays_out_as(out, length, mesh, layout::lay_out_dim(plain, length, mesh))) return out;
  return plain;
}

DimCut block_cut(const DimCut& cut, Index length, Index divisor, const DimLayout& blocks, Index block_count,
                 const layout::Mesh& mesh) {
  DimCut out = cut;
  Index ranks = 1;
  for (Level& level : out.levels) {
    level = level_in_blocks(level, divisor, block_count);
    ranks = checked_mul(ranks, level.axis_size);
  }
  const Index stored = blocks.parts.front().stored_length;
  if (out.pad_total) {
    const Index total = padded_total(cut, length);
    const Index first_size = out.levels.empty() ? 1 : out.levels.front().axis_size;
    // With padding behind it the total itself is a number of blocks; without, it is what the ranks store together.
    const bool inner = !out.levels.empty() && (out.levels.back().pad_to || out.levels.back().pad_rows);
    out.pad_total = std::max(Index{1}, (inner ? total / divisor : checked_mul(stored, ranks)) / first_size);
  }
  if (!out.levels.empty() && (out.levels.back().pad_to || out.levels.back().pad_rows)) {
    // Every rank stores ceil(w / k) blocks of the line that the outer levels leave: what they do not fill is padding.
    Level& last = out.levels.back();
    const Index lines = ranks / last.axis_size;
    const Index line = padded_total(out, block_count) / lines;
    last.pad_to.reset();
    last.pad_rows = std::max(Index{0}, checked_mul(stored, last.axis_size) - line);
  }
  if (lays_out_as(out, block_count, mesh, blocks)) return out;
  if (cut.levels.size() == 1 && !cut.pad_total) {
    DimCut shares;
    shares.levels = {explicit_shares(cut.levels.front(), blocks, mesh)};
    if (lays_out_as(shares, block_count, mesh, blocks)) return shares;
  }
  throw Error(Issue{
      ErrorCode::kUnitSplit, "", "",
      fmt::format("this cut of {} elements has no form in blocks of {}; give it a `unit` that is a multiple of {}",
                  length, divisor, divisor)});
}

bool repeats(const DimCut& cut, Index length) {
  if (cut.levels.empty()) return false;
  const Level& level = cut.levels.front();
  const auto too_few = [&](Index size, Index unit, layout::Fallback fallback) {
    return fallback == layout::Fallback::kRepeat && size > 0 && size / unit < level.axis_size;
  };
  if (level.segments.empty()) return too_few(length, level.unit, level.fallback);
  return std::any_of(level.segments.begin(), level.segments.end(), [&](const layout::Segment& segment) {
    return too_few(segment.size, segment.unit.value_or(level.unit), segment.fallback.value_or(level.fallback));
  });
}

}  // namespace reshard::planner
