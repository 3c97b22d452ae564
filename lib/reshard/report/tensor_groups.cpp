#include "reshard/report/tensor_groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace reshard::report {
namespace {

using pipeline::LayoutSummary;
using planner::Index;

/// "tp 2 x gtp 3"
std::string axes_text(const std::vector<layout::Axis>& axes) {
  std::string out;
  for (const layout::Axis& axis : axes) out += fmt::format("{}{} {}", out.empty() ? "" : " x ", axis.name, axis.size);
  return out;
}

std::string pieces_text(std::size_t count) {
  return fmt::format("{} {}", count, count == 1 ? "piece" : "pieces");
}

/// " in 2 pieces -> in 1 piece", " in another order"; empty where the parts are equal.
std::string parts_text(const pipeline::CutSummary& cut) {
  using pipeline::PartsChange;
  switch (cut.change) {
    case PartsChange::kNone:
      break;
    case PartsChange::kPieces:
      return fmt::format(" in {} -> in {}", pieces_text(cut.source_pieces), pieces_text(cut.target_pieces));
    case PartsChange::kLengths:
      return " in other lengths";
    case PartsChange::kOrder:
      return " in another order";
    case PartsChange::kPadding:
      return " with other padding";
  }
  return "";
}

/// "tp 2 -> 4", "whole -> tp 4", "tp 2 x gtp 3 -> tp 4", "tp 4", "cp 2 in another order".
std::string change_text(const pipeline::CutSummary& cut) {
  const std::string uncut = cut.dim ? "whole" : "all";
  if (cut.source == cut.target) return axes_text(cut.source) + parts_text(cut);
  if (cut.source.size() == 1 && cut.target.size() == 1 && cut.source[0].name == cut.target[0].name)
    return fmt::format("{} {} -> {}", cut.source[0].name, cut.source[0].size, cut.target[0].size);
  return fmt::format("{} -> {}", cut.source.empty() ? uncut : axes_text(cut.source),
                     cut.target.empty() ? uncut : axes_text(cut.target));
}

/// What of a layout does not tell which ranks have the tensor.
using LayoutLook = std::tuple<std::optional<std::size_t>, Shape, Shape, Shape, std::set<Shape>, std::string,
                              std::vector<std::pair<std::size_t, std::vector<Index>>>>;

LayoutLook look_of(const LayoutSummary& layout) {
  std::set<Shape> target_shapes = {layout.target_shard_shape};
  for (const std::optional<Shape>& shape : layout.target_shard_shapes)
    if (shape) target_shapes.insert(*shape);
  std::vector<std::pair<std::size_t, std::vector<Index>>> offsets;
  for (const pipeline::PaddedOffsets& padded : layout.padded_offsets) offsets.emplace_back(padded.dim, padded.offsets);
  return {layout.rule,
          layout.shape,
          layout.source_shard_shape,
          layout.target_shard_shape,
          std::move(target_shapes),
          cuts_text(layout.cuts),
          std::move(offsets)};
}

}  // namespace

std::string dtypes_text(const pipeline::TensorSummary& tensor) {
  if (tensor.source_dtype == tensor.dtype) return std::string(name(tensor.dtype));
  return fmt::format("{} -> {}", name(tensor.source_dtype), name(tensor.dtype));
}

std::vector<std::string> cut_texts(const std::vector<pipeline::CutSummary>& cuts) {
  std::vector<std::string> out;
  for (const pipeline::CutSummary& cut : cuts)
    out.push_back(cut.dim ? fmt::format("dim {} {}", *cut.dim, change_text(cut)) : "on " + change_text(cut));
  if (out.empty()) out.emplace_back("whole");
  return out;
}

std::string cuts_text(const std::vector<pipeline::CutSummary>& cuts) {
  return fmt::format("{}", fmt::join(cut_texts(cuts), ", "));
}

std::string copy_axis_text(const pipeline::CopyAxis& copy) {
  return fmt::format("{} {}{}={}", copy.side, copy.view.empty() ? "" : copy.view + " ", copy.axis.name, copy.axis.size);
}

std::vector<TensorGroup> tensor_groups(const pipeline::PlanSummary& summary) {
  std::vector<LayoutLook> looks;
  for (const LayoutSummary& layout : summary.layouts) looks.push_back(look_of(layout));
  const std::vector<std::size_t> look_numbers = group_numbers(looks);

  std::vector<std::string> names;
  std::vector<std::tuple<std::size_t, Dtype, Dtype>> keys;
  for (const pipeline::TensorSummary& tensor : summary.tensors) {
    names.push_back(tensor.name);
    keys.emplace_back(look_numbers[tensor.layout], tensor.source_dtype, tensor.dtype);
  }
  std::vector<TensorGroup> out;
  for (FoldedNames& folded : fold_names(names, group_numbers(keys))) {
    std::vector<std::string> sources;
    bool renamed = false;
    for (const std::size_t t : folded.members) {
      const pipeline::TensorSummary& tensor = summary.tensors[t];
      sources.push_back(tensor.source_name);
      renamed = renamed || tensor.source_name != tensor.name;
    }
    TensorGroup group{std::move(folded), {}};
    if (renamed)
      for (FoldedNames& source : fold_names(sources, std::vector<std::size_t>(sources.size(), 0)))
        if (source.pattern != group.names.pattern) group.source_patterns.push_back(std::move(source.pattern));
    out.push_back(std::move(group));
  }
  return out;
}

}  // namespace reshard::report
