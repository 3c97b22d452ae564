#pragma once
// Everything that comes before the first byte moves: the plan is read, the source's headers too, rules meet tensors,
// coverage is proved, files are laid out, the transport is chosen. `plan` stops here; `run` goes on. Every process
// computes the same.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/pipeline/formats.hpp"
#include "reshard/pipeline/log.hpp"
#include "reshard/pipeline/manifest_reader.hpp"
#include "reshard/pipeline/source.hpp"
#include "reshard/pipeline/target.hpp"
#include "reshard/pipeline/transport.hpp"
#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding.hpp"
#include "reshard/planner/tiling.hpp"
#include "reshard/planner/work.hpp"

namespace reshard::pipeline {

struct PrepareOptions {
  fs::path plan_file;
  plan::PlanOptions plan;
  std::optional<fs::path> source;       ///< wins over the plan's `path`
  std::optional<fs::path> target = {};  ///< the same; planning alone reads and writes nothing there
  Transport transport = Transport::kAuto;
  std::int64_t memory_bytes = std::int64_t{512} << 20;
  std::int64_t device_memory_bytes = std::int64_t{1} << 30;
  int threads = 1;
  bool allow_external = false;
  bool allow_report = false;  ///< the source may be a report of `inspect`
  int processes = 1;
  std::optional<fs::path> output = {};  ///< where the report will go: over no input and no target
  /// Nothing: the file system of the source as this process sees it, one node.
  std::optional<Machine> machine = {};
  Log log = [](std::string_view) {};
};

/// A plan, read together with the manifest of its source where there is one.
struct LoadedPlan {
  plan::ParallelPlan plan;
  std::optional<Manifest> manifest = {};
};

/// The plan file's text read and checked on its own; the source is only looked at for a manifest, whose mesh the rules
/// may be about. Errors: kUsage (cannot be opened; `output` is an input or lies where the target will be, which is told
/// before what else is wrong), those of read_plan (exit 3), those of read_manifest.
LoadedPlan load_plan(const PrepareOptions& options);

/// A plan that has met its source.
struct BoundSource {
  plan::ParallelPlan plan;
  SourceCheckpoint source;
  planner::BoundPlan bound;
  std::map<std::string, std::uint64_t> recorded_digests;  ///< of the manifest, by the source's names
};

/// Errors: those of SourceCheckpoint::open and bind, kMeshWorld (manifest and plan disagree), kSchema (ranks that are
/// no replicas share a source file), kUsage (a report as
/// source where it is not allowed). `formats` outlives the result.
BoundSource bind_source(LoadedPlan loaded, const PrepareOptions& options, const Formats& formats);

struct Prepared {
  plan::ParallelPlan plan;
  SourceCheckpoint source;
  planner::BoundPlan bound;
  /// The tilings that `work` points to: one per layout pair and size of tile.
  std::vector<std::unique_ptr<planner::Tiling>> tilings;
  std::vector<planner::WorkTensor> work;  ///< parallel to bound.tensors
  TargetFiles target;
  std::unique_ptr<planner::TargetMap> map;
  TransportPlan transport;
  /// Of the source's tensors as its manifest has them, by name; empty without one.
  std::map<std::string, std::uint64_t> recorded_digests;
  std::string plan_digest;  ///< 16 hex digits: of the resolved plan, the source's catalog and its manifest's records
  std::vector<Warning> warnings;
};

/// Errors: all that a plan and a checkpoint can have wrong, kUsage (a report as source where it is not allowed);
/// nothing is written. `formats` outlives the result.
std::unique_ptr<Prepared> prepare(LoadedPlan loaded, const PrepareOptions& options, const Formats& formats);

/// The source directory: of the options, else of the plan. Errors: kUsage where neither says one.
fs::path source_path(const plan::ParallelPlan& plan, const PrepareOptions& options);

}  // namespace reshard::pipeline
