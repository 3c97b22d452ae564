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

void join_levels(DimCut& cut, const DimCut& more, const layout::Mesh& mesh) {
  cut.levels.insert(cut.levels.end(), more.levels.begin(), more.levels.end());
  std::stable_sort(cut.levels.begin(), cut.levels.end(), [&](const Level& a, const Level& b) {
    return mesh.axis_position(a.axis) < mesh.axis_position(b.axis);
  });
}

bool lays_out_as(const DimCut& cut, Index length, const layout::Mesh& mesh, const DimLayout& wanted) {
  DimCut trial = cut;
  std::vector<std::string> fallen_back;
  if (layout::resolve_fallbacks(trial, length, fallen_back)) return false;
  return fallen_back.empty() && layout::lay_out_dim(trial, length, mesh) == wanted;
}

}  // namespace

std::vector<DimCut> cuts_by_position(const std::vector<plan::DimRule>& shard, std::size_t dims,
                                     const layout::Mesh& mesh) {
  std::vector<DimCut> out(dims);
  std::vector<const plan::DimRule*> taken(dims, nullptr);
  std::vector<Issue> issues;
  const auto count = static_cast<Index>(dims);
  for (const plan::DimRule& rule : shard) {
    const std::optional<Index> dim = parsed(rule.dim);
    if (!dim || *dim < -count || *dim >= count) {
      issues.push_back({ErrorCode::kDimRange, "", kNoTensor,
                        count == 0 ? fmt::format("dim {} of a scalar, which has no dims to cut", rule.dim)
                                   : fmt::format("dim {} of a tensor with {} dims, expected {} to {}", rule.dim, count,
                                                 -count, count - 1)});
      continue;
    }
    const auto position = static_cast<std::size_t>(*dim < 0 ? *dim + count : *dim);
    if (taken[position] && rule.axis_first) {
      join_levels(out[position], rule.cut, mesh);
      continue;
    }
    if (taken[position]) {
      issues.push_back({ErrorCode::kDimDup, "", kNoTensor,
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
    return Error(Issue{code, "", kNoTensor, fmt::format("cu_seqlens tensor '{}' {}", name, message)});
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
  std::vector<std::string> fallen_back;
  layout::resolve_fallbacks(plain, length, fallen_back);
  for (Level& level : plain.levels) {
    if (level.fallback == layout::Fallback::kReplicate) level.fallback = layout::Fallback::kError;
    for (layout::Segment& segment : level.segments)
      if (segment.fallback == layout::Fallback::kReplicate) segment.fallback = layout::Fallback::kError;
  }
  DimCut out = plain;
  std::erase_if(out.levels, [](const Level& level) { return level.axis_size == 1; });
  if (out.levels.empty() && !out.pad_total) return {};
  if (std::none_of(out.levels.begin(), out.levels.end(), [](const Level& level) { return level.packed.has_value(); }))
    out.pad_value.reset();
  // `pad_total` counts in units of the first axis: where that one is left out the same total has another divisor.
  const Index first_size = out.levels.empty() ? 1 : out.levels.front().axis_size;
  const Index total = padded_total(plain, length);
  if (out.pad_total && padded_total(out, length) != total) out.pad_total = total / first_size;
  if (lays_out_as(out, length, mesh, layout::lay_out_dim(plain, length, mesh))) return out;
  return plain;
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
