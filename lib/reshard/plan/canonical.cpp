#include "reshard/plan/canonical.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshard/plan/plan.hpp"

namespace reshard::plan {
namespace {

using layout::DimCut;
using layout::Fallback;
using layout::Index;
using layout::Level;
using layout::Segment;
using layout::SequenceLayout;
using layout::Split;

void put(Value::Object& object, std::string key, Value value) {
  object.push_back({std::move(key), std::move(value), {}});
}

template <typename T>
void put_if(Value::Object& object, std::string key, const std::optional<T>& value) {
  if (value) put(object, std::move(key), Value(*value));
}

Value list_value(const std::vector<Index>& numbers) {
  Value::Array out;
  for (const Index number : numbers) out.emplace_back(number);
  return out;
}

std::string_view fallback_name(Fallback fallback) {
  return fallback == Fallback::kError ? "error" : fallback == Fallback::kReplicate ? "replicate" : "repeat";
}

Value segment_value(const Segment& segment) {
  if (!segment.unit && !segment.fallback) return segment.size;
  Value::Object out;
  put(out, "size", segment.size);
  put_if(out, "unit", segment.unit);
  if (segment.fallback) put(out, "fallback", std::string(fallback_name(*segment.fallback)));
  return out;
}

Value split_value(const Level& level) {
  if (level.split == Split::kShares) return list_value(level.shares);
  return level.split == Split::kBalanced ? "balanced" : "chunk";
}

Value boundaries_value(const std::vector<Index>& numbers, const std::string& tensor) {
  return tensor.empty() ? list_value(numbers) : Value(tensor);
}

Value packed_value(const layout::PackedSequences& packed) {
  Value::Object out;
  put(out, "cu_seqlens", boundaries_value(packed.cu_seqlens, packed.cu_seqlens_tensor));
  if (!packed.cu_seqlens_padded.empty() || !packed.cu_seqlens_padded_tensor.empty())
    put(out, "cu_seqlens_padded", boundaries_value(packed.cu_seqlens_padded, packed.cu_seqlens_padded_tensor));
  return out;
}

/// Options that belong to the first axis where they stand beside `axes`.
void put_cut(Value::Object& out, const Level& level) {
  if (level.unit != 1) put(out, "unit", level.unit);
  if (!level.segments.empty()) {
    Value::Array segments;
    for (const Segment& segment : level.segments) segments.push_back(segment_value(segment));
    put(out, "segments", std::move(segments));
  }
  if (level.stride != 1) put(out, "stride", level.stride);
  if (level.split != Split::kEven) put(out, "split", split_value(level));
  if (level.fallback != Fallback::kError) put(out, "fallback", std::string(fallback_name(level.fallback)));
  if (level.layout != SequenceLayout::kContiguous)
    put(out, "layout", level.layout == SequenceLayout::kZigzag ? "zigzag" : "striped");
  if (level.block != 1) put(out, "block", level.block);
  if (level.packed) put(out, "packed", packed_value(*level.packed));
  if (level.packed_padding != layout::PackedPadding::kTemporary) put(out, "padding", "forbid");
}

/// Options that belong to the last axis where they stand beside `axes`.
void put_padding(Value::Object& out, const Level& level) {
  put_if(out, "pad_to", level.pad_to);
  put_if(out, "pad_rows", level.pad_rows);
}

/// An integer where it is one, so that 0 and 0.0 are one value.
Value number_value(double number) {
  constexpr double kExact = 9007199254740992.0;
  if (number == std::floor(number) && std::abs(number) <= kExact && !(number == 0 && std::signbit(number)))
    return static_cast<Index>(number);
  return Value::Float{number, fmt::format("{}", number)};
}

Value side_value(const Side& side) {
  Value::Object out;
  put(out, "axes", axes_value(side.mesh));
  if (!side.mesh.ranks().empty()) put(out, "ranks", list_value(side.mesh.ranks()));
  Value::Object views;
  for (const View& view : side.views) put(views, view.name, axes_value(view.mesh));
  if (!views.empty()) put(out, "views", std::move(views));
  put_if(out, "format", side.format);
  put_if(out, "files", side.files);
  put_if(out, "max_file_size", side.max_file_size_bytes);
  return out;
}

Value members_value(const std::vector<Member>& all) {
  Value::Object out;
  for (const Member& member : all) {
    std::vector<std::string> tokens;
    for (const MemberDim& dim : member.dims)
      tokens.push_back(dim.name.empty()   ? "."
                       : dim.divisor == 1 ? dim.name
                                          : fmt::format("{}/{}", dim.name, dim.divisor));
    put(out, member.may_be_absent ? member.suffix + "?" : member.suffix, fmt::format("{}", fmt::join(tokens, " ")));
  }
  return out;
}

Value rule_value(const Rule& rule) {
  Value::Object out;
  put(out, "match", rule.match.text());
  if (rule.drop) {
    // Of what is left out, members alone matter: they are part of the names that match.
    const Value members = members_value(rule.source.members);
    if (!members.object().empty()) put(out, "members", members);
  } else {
    put(out, "source", placement_value(rule.source));
    put(out, "target", placement_value(rule.target));
  }
  put_if(out, "rename", rule.rename);
  if (rule.dtype) put(out, "dtype", std::string(name(*rule.dtype)));
  if (rule.optional) put(out, "optional", true);
  if (rule.drop) put(out, "drop", true);
  return out;
}

}  // namespace

Value axes_value(const layout::Mesh& mesh) {
  Value::Array out;
  for (const layout::Axis& axis : mesh.axes()) out.emplace_back(fmt::format("{}={}", axis.name, axis.size));
  return out;
}

Value dim_value(const DimCut& cut) {
  Value::Object beside;
  Value::Array axes;
  for (std::size_t i = 0; i < cut.levels.size(); ++i) {
    const Level& level = cut.levels[i];
    const bool first = i == 0;
    const bool last = i + 1 == cut.levels.size();
    Value::Object own;
    put(own, "axis", level.axis);
    put_cut(first ? beside : own, level);
    put_padding(last ? beside : own, level);
    axes.push_back(own.size() == 1 ? Value(level.axis) : Value(std::move(own)));
  }
  Value::Object out;
  put(out, "axes", std::move(axes));
  out.insert(out.end(), beside.begin(), beside.end());
  put_if(out, "pad_total", cut.pad_total);
  if (cut.fill != layout::Fill::kZero) put(out, "fill", "last");
  if (cut.pad_value) put(out, "pad_value", number_value(*cut.pad_value));
  put_if(out, "size", cut.size);
  return out;
}

Value owner_value(const OwnerRule& owner) {
  Value::Object out;
  if (owner.capture) {
    put(out, "index", fmt::format("${}", *owner.capture));
  } else {
    put(out, "index", owner.indices.size() == 1 ? Value(owner.indices.front()) : list_value(owner.indices));
  }
  put(out, "count", owner.count);
  if (!owner.split.empty()) put(out, "split", list_value(owner.split));
  if (owner.local_numbering) put(out, "numbering", "local");
  return out;
}

Value placement_value(const Placement& placement) {
  Value::Object out;
  if (!placement.view.empty()) put(out, "view", placement.view);
  Value::Object shard;
  for (const DimRule& rule : placement.shard) put(shard, rule.dim, dim_value(rule.cut));
  if (!shard.empty()) put(out, "shard", std::move(shard));
  Value::Object owners;
  for (const OwnerRule& owner : placement.owners) put(owners, owner.axis, owner_value(owner));
  if (!owners.empty()) put(out, "owner", std::move(owners));
  if (!placement.members.empty()) put(out, "members", members_value(placement.members));
  return out;
}

Value canonical_value(const ParallelPlan& plan) {
  Value::Object out;
  put(out, "reshard", 1);
  put(out, "source", side_value(plan.source));
  put(out, "target", side_value(plan.target));
  put(out, "unmatched",
      plan.unmatched == Unmatched::kError       ? "error"
      : plan.unmatched == Unmatched::kReplicate ? "replicate"
                                                : "drop");
  Value::Array rules;
  for (const Rule& rule : plan.rules) rules.push_back(rule_value(rule));
  put(out, "tensors", std::move(rules));
  return out;
}

}  // namespace reshard::plan
