#include "reshard/pipeline/plan_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "reshard/base/checked.hpp"
#include "reshard/layout/sequence.hpp"
#include "reshard/pipeline/mesh_walk.hpp"
#include "reshard/pipeline/traffic.hpp"
#include "reshard/pipeline/unmatched_pattern.hpp"

namespace reshard::pipeline {
namespace {

using layout::DimLayout;
using layout::TensorLayout;
using planner::BoundTensor;
using planner::Index;
using planner::LayoutPair;

/// What all ranks of the target store, and how much of it is padding in its files.
struct StoredTotals {
  std::vector<std::int64_t> bytes;    // by rank
  std::vector<std::int64_t> tensors;  // by rank
  std::int64_t bytes_written = 0;     // a file shared by replicas once
  std::int64_t padding_bytes = 0;     // of bytes_written
};

/// Elements of a shard as stored, and those of them that belong to the tensor.
class ShardSizes {
 public:
  explicit ShardSizes(const TensorLayout& layout) : layout_(layout), lengths_(layout.dims.size()) {
    for (const DimLayout& dim : layout.dims) {
      std::vector<Index>& lengths = true_lengths_.emplace_back();
      for (const layout::DimShard& part : dim.parts) lengths.push_back(part.true_length());
    }
  }
  Index stored(Index rank) {
    for (std::size_t d = 0; d < lengths_.size(); ++d) lengths_[d] = layout_.dims[d].shard_of(rank).stored_length;
    return checked_product(lengths_);
  }
  Index true_elements(Index rank) {
    for (std::size_t d = 0; d < lengths_.size(); ++d)
      lengths_[d] = true_lengths_[d][static_cast<std::size_t>(layout_.dims[d].part_of(rank))];
    return checked_product(lengths_);
  }

 private:
  const TensorLayout& layout_;
  std::vector<std::vector<Index>> true_lengths_;  // by dim and part
  Shape lengths_;                                 // of the rank that was asked for last
};

StoredTotals stored_totals(const Prepared& prepared) {
  const planner::BoundPlan& bound = prepared.bound;
  // Bytes of one element of every tensor of a layout together, and how many tensors those are.
  std::vector<std::int64_t> element_bytes(bound.layouts.size(), 0);
  std::vector<std::int64_t> tensors(bound.layouts.size(), 0);
  for (const BoundTensor& tensor : bound.tensors) {
    element_bytes[tensor.layout] = checked_add(element_bytes[tensor.layout], size_bytes(tensor.target_dtype));
    ++tensors[tensor.layout];
  }
  // Replicas that share a file write it once; the files of a numbered set are all of rank 0.
  std::set<Index> writing;
  for (const TargetFile& file : prepared.target.files) writing.insert(file.rank);

  const Index ranks = prepared.plan.target.mesh.size();
  StoredTotals out;
  out.bytes.assign(static_cast<std::size_t>(ranks), 0);
  out.tensors.assign(static_cast<std::size_t>(ranks), 0);
  for (std::size_t l = 0; l < bound.layouts.size(); ++l) {
    const TensorLayout& target = bound.layouts[l].target;
    ShardSizes sizes(target);
    for (Index rank = 0; rank < ranks; ++rank) {
      if (!target.is_present(rank)) continue;
      const Index stored = sizes.stored(rank);
      const std::int64_t bytes = checked_mul(stored, element_bytes[l]);
      const auto r = static_cast<std::size_t>(rank);
      out.bytes[r] = checked_add(out.bytes[r], bytes);
      out.tensors[r] += tensors[l];
      if (writing.count(rank) == 0) continue;
      out.bytes_written = checked_add(out.bytes_written, bytes);
      out.padding_bytes += (stored - sizes.true_elements(rank)) * element_bytes[l];
    }
  }
  return out;
}

SideSummary side_summary(const plan::Side& side, std::string_view format, std::int64_t bytes) {
  SideSummary out;
  out.axes = axes_text(side.mesh);
  for (const plan::View& view : side.views) out.views[view.name] = axes_text(view.mesh);
  out.ranks = side.mesh.size();
  out.format = format;
  out.bytes = bytes;
  return out;
}

PlanHeader header_of(const Prepared& prepared, const PrepareOptions& options, const StoredTotals& stored,
                     std::int64_t transfers) {
  const TransportPlan& transport = prepared.transport;
  PlanHeader out;
  out.plan_digest = prepared.plan_digest;
  out.source = side_summary(prepared.plan.source, prepared.source.format().name(), prepared.source.tensor_bytes());
  out.target = side_summary(prepared.plan.target, prepared.target.format->name(), stored.bytes_written);
  out.processes = options.processes;
  out.transport = name(transport.transport);
  out.transport_why = transport.why;
  out.totals.tensors = static_cast<std::int64_t>(prepared.bound.tensors.size());
  out.totals.transfers = transfers;
  out.totals.bytes_read = transport.bytes_read();
  out.totals.bytes_exchanged = transport.exchange.bytes_exchanged;
  out.totals.bytes_written = stored.bytes_written;
  out.totals.padding_bytes = stored.padding_bytes;
  out.totals.rounds =
      transport.transport == Transport::kDirect ? std::int64_t{transfers > 0 ? 1 : 0} : transport.exchange.rounds;

  Workload workload;
  for (const planner::WorkTensor& work : prepared.work)
    workload.needed_bytes =
        checked_add(workload.needed_bytes, checked_mul(work.tiling->tensor_elements(), work.source_element_bytes));
  workload.read_bytes = out.totals.bytes_read;
  workload.exchanged_bytes = out.totals.bytes_exchanged;
  workload.written_bytes = stored.bytes_written;
  workload.files = static_cast<std::int64_t>(prepared.target.files.size());
  workload.processes = options.processes;
  out.estimate = estimate(workload);

  out.memory_bound_bytes = options.memory_bytes;
  out.peak_staging_bytes = transport.peak_bytes;
  out.device_bound_bytes = options.device_memory_bytes;
  out.peak_device_bytes = transport.device_peak_bytes;
  out.ignored_files = prepared.source.ignored();
  out.dropped = prepared.bound.dropped;
  out.dropped_unmatched = static_cast<std::int64_t>(prepared.bound.dropped_unmatched);
  out.unused_optional_rules = static_cast<std::int64_t>(prepared.bound.unused_optional_rules);
  out.warnings = prepared.warnings;
  return out;
}

std::vector<RankSummary> rank_summaries(const Prepared& prepared, const StoredTotals& stored) {
  const layout::Mesh& mesh = prepared.plan.target.mesh;
  const TargetFiles& target = prepared.target;
  std::vector<RankSummary> out;
  for (Index rank = 0; rank < mesh.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    RankSummary summary;
    summary.rank = rank;
    const std::vector<Index> coordinates = mesh.coordinates(rank);
    for (std::size_t a = 0; a < coordinates.size(); ++a)
      summary.coordinates.emplace_back(mesh.axes()[a].name, coordinates[a]);
    summary.file = target.index_name.empty() ? target.files[target.file_of_rank[r]].name : target.index_name;
    summary.tensors = stored.tensors[r];
    summary.bytes = stored.bytes[r];
    out.push_back(std::move(summary));
  }
  return out;
}

/// The walks over the meshes of a side, one per view that is asked for.
class SideWalks {
 public:
  explicit SideWalks(const plan::Side& side) : side_(side) {}
  const MeshWalk& of(const std::string& view) { return walks_.try_emplace(view, side_.mesh_of(view)).first->second; }

 private:
  const plan::Side& side_;
  std::map<std::string, MeshWalk> walks_;
};

Index lowest_present(const TensorLayout& layout) {
  for (Index rank = 0; rank < layout.ranks; ++rank)
    if (layout.is_present(rank)) return rank;
  internal_error("a tensor that no rank has");
}

std::vector<std::optional<Shape>> shapes_where_they_differ(const TensorLayout& layout) {
  std::vector<std::optional<Shape>> out;
  bool differ = false;
  for (Index rank = 0; rank < layout.ranks; ++rank) {
    out.push_back(layout.is_present(rank) ? std::optional(layout.stored_shape(rank)) : std::nullopt);
    differ = differ || out.back() != out.front();
  }
  if (!differ) out.clear();
  return out;
}

std::vector<PaddedOffsets> padded_offsets_of(const LayoutPair& pair) {
  std::vector<PaddedOffsets> out;
  for (std::size_t d = 0; d < pair.target_placement.dims.size(); ++d) {
    const std::vector<layout::Level>& levels = pair.target_placement.dims[d].levels;
    if (levels.empty() || !levels.front().packed || levels.front().axis_size == 1 ||
        levels.front().layout != layout::SequenceLayout::kZigzag)
      continue;
    PaddedOffsets padded{d, {0}};
    for (const Index length : layout::padded_lengths(*levels.front().packed, levels.front().axis_size, 1))
      padded.offsets.push_back(padded.offsets.back() + length);
    // The last sequence also takes what inner even levels need.
    Index total = pair.target.dims[d].parts.front().stored_length;
    bool even = true;
    for (const layout::Level& level : levels) {
      total = checked_mul(total, level.axis_size);
      even = even && !level.pad_to && !level.pad_rows && level.split == layout::Split::kEven;
    }
    if (even) padded.offsets.back() = total;
    out.push_back(std::move(padded));
  }
  return out;
}

/// Layout summaries by layout and rule: the same layout may come from rules of different views.
class LayoutSummaries {
 public:
  LayoutSummaries(const Prepared& prepared, bool shards)
      : prepared_(prepared), shards_(shards), source_(prepared.plan.source), target_(prepared.plan.target) {}

  std::size_t number_of(const BoundTensor& tensor) {
    const auto [entry, added] = numbers_.try_emplace({tensor.layout, tensor.rule}, out_.size());
    if (added) out_.push_back(summary_of(tensor));
    return entry->second;
  }
  std::vector<LayoutSummary> take() { return std::move(out_); }

 private:
  LayoutSummary summary_of(const BoundTensor& tensor) {
    const LayoutPair& pair = prepared_.bound.layouts[tensor.layout];
    LayoutSummary out;
    std::string source_view;
    if (tensor.rule != planner::kNoRule) {
      out.rule = tensor.rule;
      source_view = prepared_.plan.rules[tensor.rule].source.view;
    }
    out.shape = pair.target.shape;
    out.source_shard_shape = pair.source.stored_shape(lowest_present(pair.source));
    out.target_shard_shape = pair.target.stored_shape(lowest_present(pair.target));
    out.target_shard_shapes = shapes_where_they_differ(pair.target);
    out.cuts = cuts_of(pair.source, source_.of(source_view), pair.target, target_.of(pair.target_placement.view));
    out.padded_offsets = padded_offsets_of(pair);
    if (shards_) {
      out.source_shards = shards_of(pair.source);
      out.target_shards = shards_of(pair.target);
    }
    return out;
  }

  const Prepared& prepared_;
  bool shards_;
  SideWalks source_;
  SideWalks target_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> numbers_;
  std::vector<LayoutSummary> out_;
};

LocalTensor local_tensor(const Prepared& prepared, std::size_t t, Index rank) {
  const BoundTensor& tensor = prepared.bound.tensors[t];
  LocalTensor out;
  out.name = tensor.target_stored_name();
  out.dtype = tensor.target_dtype;
  out.shape = prepared.bound.layouts[tensor.layout].target.stored_shape(rank);
  out.bytes = checked_mul(checked_product(out.shape), size_bytes(out.dtype));
  out.file = prepared.target.files[prepared.map->file(t, rank)].name;
  return out;
}

bool holds_otherwise(const TensorLayout& layout, Index rank, Index other) {
  return layout.is_present(rank) != layout.is_present(other) ||
         std::any_of(layout.dims.begin(), layout.dims.end(),
                     [&](const DimLayout& dim) { return dim.part_of(rank) != dim.part_of(other); });
}

/// Axes of one side along which no tensor changes.
void add_copy_axes(const planner::BoundPlan& bound, const plan::Side& side, TensorLayout LayoutPair::*layout,
                   const std::string& side_name, std::vector<CopyAxis>& out) {
  std::set<std::string> told;
  const auto look = [&](const std::string& view, const layout::Mesh& mesh) {
    const MeshWalk walk(mesh);
    for (std::size_t a = 0; a < walk.axes().size(); ++a) {
      const bool is_used = std::any_of(bound.layouts.begin(), bound.layouts.end(), [&](const LayoutPair& pair) {
        return walk.changes(a, [&](Index x, Index y) { return holds_otherwise(pair.*layout, x, y); });
      });
      if (!is_used && told.insert(walk.axes()[a].name).second) out.push_back({side_name, view, walk.axes()[a]});
    }
  };
  look("", side.mesh);
  for (const plan::View& view : side.views) look(view.name, view.mesh);
}

/// A pattern that was typed to narrow a listing matches something.
void check_matches(const plan::NamePattern& pattern, const planner::BoundPlan& bound) {
  std::vector<std::string> names;
  for (const BoundTensor& tensor : bound.tensors) {
    if (pattern.match(tensor.target_name)) return;
    names.push_back(tensor.target_name);
  }
  throw Error(Issue{ErrorCode::kUsage, "--tensor", kNoTensor, unmatched_message(pattern, names)});
}

RoundHistory round_history(const TransportPlan& transport) {
  if (transport.transport != Transport::kDirect) return transport.exchange.held;
  RoundHistory out(transport.peak_bytes.size());
  out.add(transport.peak_bytes);
  return out;
}

}  // namespace

PlanHeader plan_header(const Prepared& prepared, const PrepareOptions& options) {
  return header_of(prepared, options, stored_totals(prepared), traffic_of(prepared.bound, prepared.work).transfers);
}

PlanSummary summarize(const Prepared& prepared, const PrepareOptions& options, const ListingOptions& listing) {
  const planner::BoundPlan& bound = prepared.bound;
  const Index ranks = prepared.plan.target.mesh.size();
  if (listing.rank && (*listing.rank < 0 || *listing.rank >= ranks))
    throw Error(Issue{ErrorCode::kUsage, "", kNoTensor,
                      fmt::format("--rank {}: the target has ranks 0 to {}", *listing.rank, ranks - 1)});
  if (listing.tensor) check_matches(*listing.tensor, bound);
  const StoredTotals stored = stored_totals(prepared);
  const Traffic traffic = traffic_of(bound, prepared.work);

  PlanSummary out;
  out.header = header_of(prepared, options, stored, traffic.transfers);
  for (const auto& [pair, bytes] : traffic.bytes) out.traffic.push_back({pair.first, pair.second, bytes});
  out.ranks = rank_summaries(prepared, stored);
  out.local_rank = listing.rank;
  add_copy_axes(bound, prepared.plan.source, &LayoutPair::source, "source", out.copy_axes);
  add_copy_axes(bound, prepared.plan.target, &LayoutPair::target, "target", out.copy_axes);

  out.rounds = round_history(prepared.transport);

  LayoutSummaries layouts(prepared, listing.shards);
  TransferLists transfers(prepared, listing.rank);
  std::map<std::size_t, std::size_t> transfers_of_layout;
  for (std::size_t t = 0; t < bound.tensors.size(); ++t) {
    const BoundTensor& tensor = bound.tensors[t];
    if (listing.tensor && !listing.tensor->match(tensor.target_name)) continue;
    if (listing.rank) {
      if (!bound.layouts[tensor.layout].target.is_present(*listing.rank)) continue;
      out.local.push_back(local_tensor(prepared, t, *listing.rank));
    }
    TensorSummary summary;
    summary.name = tensor.target_name;
    summary.source_name = tensor.source_name;
    summary.dtype = tensor.target_dtype;
    summary.source_dtype = tensor.source_dtype;
    summary.layout = layouts.number_of(tensor);
    if (listing.transfers == ListedTransfers::kOfEveryTensor)
      summary.transfers = transfers.number_of(t, out.tensors.size());
    if (listing.transfers == ListedTransfers::kOfEveryLayout) {
      const auto [entry, added] = transfers_of_layout.try_emplace(summary.layout, 0);
      if (added) entry->second = transfers.number_of(t, out.tensors.size());
      summary.transfers = entry->second;
    }
    out.tensors.push_back(std::move(summary));
  }
  out.layouts = layouts.take();
  out.transfers = transfers.take();
  return out;
}

}  // namespace reshard::pipeline
