#pragma once
// What a prepared plan will do, as plain values: the `reshard.plan` report before it is text or JSON (interface section
// 6).
//
// Tensors of one layout, rule and dtypes share all that does not depend on their names. Totals count every tensor in
// full, also where the listing is narrowed or folded. Cost: O(layouts x ranks + tensors x pieces + transfers that are
// listed).

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"
#include "reshard/pipeline/cut_summary.hpp"
#include "reshard/pipeline/estimate.hpp"
#include "reshard/pipeline/prepare.hpp"
#include "reshard/pipeline/round_history.hpp"
#include "reshard/pipeline/shard_summary.hpp"
#include "reshard/pipeline/transfer_lists.hpp"
#include "reshard/plan/pattern.hpp"

namespace reshard::pipeline {

struct SideSummary {
  std::vector<std::string> axes;                          ///< "tp=2"
  std::map<std::string, std::vector<std::string>> views;  ///< name -> axes
  planner::Index ranks = 1;
  std::string format;
  std::int64_t bytes = 0;  ///< of all tensors in its files, padding included
};

struct PlanTotals {
  std::int64_t tensors = 0;
  std::int64_t transfers = 0;
  std::int64_t bytes_read = 0;
  std::int64_t bytes_exchanged = 0;
  std::int64_t bytes_written = 0;
  std::int64_t padding_bytes = 0;  ///< of bytes_written
  std::int64_t rounds = 0;         ///< lockstep rounds; 1 for direct, which has none to keep
};

/// What the reports of a plan and of a run have in common.
struct PlanHeader {
  std::string plan_digest;
  SideSummary source;
  SideSummary target;
  int processes = 1;
  std::string transport;
  std::string transport_why;
  PlanTotals totals;
  Estimate estimate;
  std::int64_t memory_bound_bytes = 0;           ///< per process
  std::int64_t device_bound_bytes = 0;           ///< per process, of GPU memory
  std::vector<std::int64_t> peak_device_bytes;   ///< by process; empty where no GPU takes part
  std::vector<std::int64_t> peak_staging_bytes;  ///< by process, as planned
  std::vector<std::string> ignored_files;
  std::vector<std::string> dropped;        ///< source tensors left out
  std::int64_t dropped_unmatched = 0;      ///< how many of them no rule matched (--allow-extra)
  std::int64_t unused_optional_rules = 0;  ///< rules that matched nothing (--allow-missing)
  std::vector<Warning> warnings;
};

/// True bytes from one source rank to one target rank, whatever the processes, in the source's dtype.
struct TrafficEntry {
  planner::Index source_rank = 0;
  planner::Index target_rank = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const TrafficEntry&, const TrafficEntry&) = default;
};

/// What one target rank stores.
struct RankSummary {
  planner::Index rank = 0;
  std::vector<std::pair<std::string, planner::Index>> coordinates;  ///< by axis of the mesh, in its order
  std::string file;                                                 ///< of a numbered set: its index
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;  ///< padding included

  friend bool operator==(const RankSummary&, const RankSummary&) = default;
};

/// Where the packed sequences of a target dim begin once each is padded, and where the last one ends: what cu_seqlens
/// does not record (plan format section 9).
struct PaddedOffsets {
  std::size_t dim = 0;
  std::vector<planner::Index> offsets;

  friend bool operator==(const PaddedOffsets&, const PaddedOffsets&) = default;
};

/// What tensors of one layout and rule have in common.
struct LayoutSummary {
  std::optional<std::size_t> rule;  ///< nothing: `unmatched: replicate`
  Shape shape;
  Shape source_shard_shape;  ///< of the lowest rank that has the tensor
  Shape target_shard_shape;
  /// By target rank, nothing where absent; empty where all ranks store the same shape.
  std::vector<std::optional<Shape>> target_shard_shapes;
  std::vector<CutSummary> cuts;  ///< presence first, then dims that some axis cuts on some side
  std::vector<PaddedOffsets> padded_offsets;
  std::vector<ShardSummary> source_shards = {};  ///< where `shards` is asked for
  std::vector<ShardSummary> target_shards = {};
};

struct TensorSummary {
  std::string name;  ///< in the target
  std::string source_name;
  Dtype dtype = Dtype::kU8;  ///< in the target
  Dtype source_dtype = Dtype::kU8;
  std::size_t layout = 0;     ///< index into PlanSummary::layouts
  std::size_t transfers = 0;  ///< index into PlanSummary::transfers
};

/// One tensor as a target rank stores it.
struct LocalTensor {
  std::string name;  ///< in the file
  Dtype dtype = Dtype::kU8;
  Shape shape;
  std::int64_t bytes = 0;
  std::string file;
};

/// An axis of size > 1 along which all ranks of a side store the same.
struct CopyAxis {
  std::string side;  ///< "source", "target"
  std::string view;  ///< empty: `axes`
  layout::Axis axis;

  friend bool operator==(const CopyAxis&, const CopyAxis&) = default;
};

struct PlanSummary {
  PlanHeader header;
  std::vector<TrafficEntry> traffic;  ///< by source rank, then target rank; pairs without bytes are left out
  std::vector<RankSummary> ranks;
  std::vector<LayoutSummary> layouts;
  std::vector<TensorSummary> tensors;  ///< those that are listed, in bytewise order of their names
  std::vector<TransferList> transfers;
  std::optional<planner::Index> local_rank;
  std::vector<LocalTensor> local;  ///< where `local_rank` is asked for
  std::vector<CopyAxis> copy_axes;
  RoundHistory rounds;  ///< what every process holds; direct: one round, in which each holds its peak
};

enum class ListedTransfers { kNone, kOfEveryLayout, kOfEveryTensor };

/// What of a plan is listed.
struct ListingOptions {
  std::optional<plan::NamePattern> tensor;  ///< only target names that match
  std::optional<planner::Index> rank;       ///< only what this target rank stores, and transfers into it
  /// kOfEveryLayout: those of the first tensor of a layout stand for all of it, although others may be read from other
  /// copies. kNone: PlanSummary::transfers stays empty.
  ListedTransfers transfers = ListedTransfers::kOfEveryTensor;
  bool shards = false;  ///< how both sides cut every layout
};

/// Nothing of it depends on which process asks, nor on the clock.
PlanHeader plan_header(const Prepared& prepared, const PrepareOptions& options);

/// Errors: kUsage for a rank that the target does not have, and for a pattern that matches none of its tensors.
PlanSummary summarize(const Prepared& prepared, const PrepareOptions& options, const ListingOptions& listing);

}  // namespace reshard::pipeline
