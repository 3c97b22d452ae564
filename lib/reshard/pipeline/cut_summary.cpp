#include "reshard/pipeline/cut_summary.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace reshard::pipeline {
namespace {

using layout::DimLayout;
using layout::DimShard;
using layout::Index;
using layout::TensorLayout;

std::size_t most_runs(const DimLayout& dim) {
  std::size_t out = 0;
  for (const DimShard& part : dim.parts) out = std::max(out, part.runs.size());
  return out;
}

bool equal_lengths(const DimShard& a, const DimShard& b) {
  return a.true_length() == b.true_length();
}

/// Padding may move a run to another stored position.
bool equal_elements(const DimShard& a, const DimShard& b) {
  return std::equal(
      a.runs.begin(), a.runs.end(), b.runs.begin(), b.runs.end(),
      [](const layout::Run& x, const layout::Run& y) { return x.global == y.global && x.length == y.length; });
}

void compare_parts(const DimLayout& source, const DimLayout& target, CutSummary& cut) {
  if (source.parts == target.parts) return;
  const auto all = [&](bool (*equal)(const DimShard&, const DimShard&)) {
    return std::equal(source.parts.begin(), source.parts.end(), target.parts.begin(), target.parts.end(), equal);
  };
  const std::size_t source_pieces = most_runs(source);
  const std::size_t target_pieces = most_runs(target);
  if (source_pieces != target_pieces) {
    cut.change = PartsChange::kPieces;
    cut.source_pieces = source_pieces;
    cut.target_pieces = target_pieces;
  } else if (!all(equal_lengths)) {
    cut.change = PartsChange::kLengths;
  } else {
    cut.change = all(equal_elements) ? PartsChange::kPadding : PartsChange::kOrder;
  }
}

std::vector<layout::Axis> axes_of_presence(const TensorLayout& layout, const MeshWalk& walk) {
  if (layout.present.empty()) return {};
  return walk.changing([&](Index a, Index b) { return layout.is_present(a) != layout.is_present(b); });
}

std::vector<layout::Axis> axes_of_dim(const DimLayout& dim, const MeshWalk& walk) {
  if (dim.parts.size() < 2) return {};
  return walk.changing([&](Index a, Index b) { return dim.part_of(a) != dim.part_of(b); });
}

}  // namespace

std::vector<CutSummary> cuts_of(const TensorLayout& source, const MeshWalk& source_walk, const TensorLayout& target,
                                const MeshWalk& target_walk) {
  std::vector<CutSummary> out;
  const auto add = [&](CutSummary cut) {
    if (cut.source.empty() && cut.target.empty()) return;
    if (cut.dim && cut.source == cut.target) compare_parts(source.dims[*cut.dim], target.dims[*cut.dim], cut);
    out.push_back(std::move(cut));
  };
  add({std::nullopt, axes_of_presence(source, source_walk), axes_of_presence(target, target_walk)});
  for (std::size_t d = 0; d < target.dims.size(); ++d)
    add({d, axes_of_dim(source.dims[d], source_walk), axes_of_dim(target.dims[d], target_walk)});
  return out;
}

}  // namespace reshard::pipeline
