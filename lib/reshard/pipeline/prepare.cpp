#include "reshard/pipeline/prepare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "reshard/base/crc64.hpp"
#include "reshard/base/memory.hpp"
#include "reshard/pipeline/inspect_reader.hpp"
#include "reshard/pipeline/manifest_layouts.hpp"
#include "reshard/pipeline/records.hpp"
#include "reshard/pipeline/shared_files.hpp"
#include "reshard/pipeline/staging.hpp"
#include "reshard/planner/binding_dtype.hpp"
#include "reshard/planner/holding_text.hpp"
#include "reshard/planner/readers.hpp"
#include "reshard/planner/transfers.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;

/// Bytes of source and target that one tile touches: small enough to stay in a core's cache between reading and
/// writing.
constexpr std::int64_t kTileBytes = std::int64_t{1} << 20;
/// Smaller ones are not tried, however little memory there is: their number alone would take longer than the move.
constexpr std::int64_t kLeastTileBytes = std::int64_t{4} << 10;
/// A bound on memory leaves room for some tiles, and for the exchange's copies of each.
constexpr std::int64_t kTilesInMemory = 16;
constexpr std::int64_t kPlanBytes = std::int64_t{16} << 20;

/// Names, dtypes, shapes and file sizes: what makes this source this source, without reading it.
std::string catalog_text(const SourceCheckpoint& source) {
  std::string out;
  for (const planner::SourceTensor& tensor : source.catalog().tensors) {
    out += escaped(tensor.name);
    for (const planner::StoredRun& run : tensor.stored) {
      out += fmt::format(" {}-{} {}", run.first_rank, run.last_rank, name(run.dtype));
      for (const Index extent : run.shape) out += fmt::format(" {}", extent);
    }
    out += '\n';
  }
  for (std::size_t f = 0; f < source.files().size(); ++f)
    out += fmt::format("{} {}\n", escaped(source.file_names()[f]), source.files()[f].bytes);
  return out;
}

/// A tensor of cumulative lengths: whole, from the lowest rank that has it.
std::vector<Index> read_numbers(const SourceCheckpoint& source, bool allow_external,
                                const planner::SourceTensor& tensor) {
  const planner::StoredRun& run = tensor.stored.front();
  if (run.dtype != Dtype::kI32 && run.dtype != Dtype::kI64)
    throw Error(Issue{ErrorCode::kSeqLayout, "", tensor.name,
                      fmt::format("holds {}, cumulative lengths are i32 or i64", name(run.dtype))});
  const std::int64_t element_bytes = size_bytes(run.dtype);
  const SourceLocation location = source.locate(run.first_rank, tensor.name);
  std::vector<std::byte> bytes(static_cast<std::size_t>(checked_mul(checked_product(run.shape), element_bytes)));
  SourceReaders(source, allow_external).read(location, 0, bytes);
  std::vector<Index> out;
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(element_bytes)) {
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    if (element_bytes == 8) {
      std::memcpy(&wide, bytes.data() + at, 8);
    } else {
      std::memcpy(&narrow, bytes.data() + at, 4);
      wide = narrow;
    }
    out.push_back(wide);
  }
  return out;
}

void choose_sources(Prepared& prepared) {
  std::vector<planner::TensorToRead> tensors;
  for (const planner::BoundTensor& tensor : prepared.bound.tensors)
    tensors.push_back({&prepared.bound.layouts[tensor.layout].source, size_bytes(tensor.source_dtype)});
  std::vector<std::vector<Index>> sources = planner::choose_sources(tensors);
  // Proved once for each layout pair; which of equal holders is read does not change what is covered.
  std::vector<bool> proved(prepared.bound.layouts.size(), false);
  IssueList issues;
  for (std::size_t t = 0; t < prepared.bound.tensors.size(); ++t) {
    const planner::BoundTensor& tensor = prepared.bound.tensors[t];
    if (!proved[tensor.layout]) {
      proved[tensor.layout] = true;
      const planner::LayoutPair& pair = prepared.bound.layouts[tensor.layout];
      try {
        planner::prove_coverage(pair.source, pair.target, sources[t]);
      } catch (const Error& error) {
        for (Issue issue : error.issues()) {
          issue.tensor = tensor.target_name;
          issues.add(std::move(issue));
        }
      }
    }
    planner::WorkTensor work;
    work.sources = std::move(sources[t]);
    work.source_element_bytes = size_bytes(tensor.source_dtype);
    work.target_element_bytes = size_bytes(tensor.target_dtype);
    work.changes_dtype = tensor.source_dtype != tensor.target_dtype;
    const std::vector<layout::DimCut>& cuts = prepared.bound.layouts[tensor.layout].target_placement.dims;
    for (std::size_t d = 0; d < cuts.size(); ++d) {
      if (!cuts[d].pad_value) continue;
      work.pad_values.resize(d + 1);
      work.pad_values[d] = planner::element_of(tensor.target_dtype, *cuts[d].pad_value);
    }
    prepared.work.push_back(std::move(work));
  }
  issues.throw_if_any(Exit::kCheckpoint);
}

void make_tilings(Prepared& prepared, std::int64_t tile_bytes) {
  prepared.tilings.clear();
  std::map<std::pair<std::size_t, std::int64_t>, const planner::Tiling*> known;
  for (std::size_t t = 0; t < prepared.work.size(); ++t) {
    planner::WorkTensor& work = prepared.work[t];
    const std::size_t layout = prepared.bound.tensors[t].layout;
    const std::int64_t element_bytes = std::max(work.source_element_bytes, work.target_element_bytes);
    const planner::Tiling*& tiling = known[{layout, element_bytes}];
    if (tiling == nullptr) {
      const planner::LayoutPair& pair = prepared.bound.layouts[layout];
      prepared.tilings.push_back(
          std::make_unique<planner::Tiling>(pair.source, pair.target, std::max<Index>(1, tile_bytes / element_bytes)));
      tiling = prepared.tilings.back().get();
    }
    work.tiling = tiling;
  }
}

std::string mesh_text(const layout::Mesh& mesh) {
  std::string out = fmt::format("[{}]", fmt::join(axes_text(mesh), ", "));
  if (!mesh.ranks().empty()) out += fmt::format(" with ranks [{}]", fmt::join(mesh.ranks(), ", "));
  return out;
}

/// Tiles as large as is useful; where memory does not hold what moving them takes, smaller ones. So what the least
/// tiles take is the least memory that works.
void choose_transport(Prepared& prepared, const PrepareOptions& options) {
  const TransportRequest request{
      options.transport,           options.machine.value_or(Machine{storage_of(prepared.source.root()), 1}),
      options.processes,           options.memory_bytes,
      options.device_memory_bytes, options.threads};
  std::int64_t tile_bytes = std::clamp(options.memory_bytes / kTilesInMemory, kLeastTileBytes, kTileBytes);
  while (true) {
    make_tilings(prepared, tile_bytes);
    try {
      prepared.transport = choose_transport(request, prepared.work, *prepared.map);
      return;
    } catch (const Error& error) {
      if (error.exit() != Exit::kMemory || tile_bytes == kLeastTileBytes) throw;
    }
    tile_bytes = std::max(kLeastTileBytes, tile_bytes / 4);
  }
}

/// Files of ours record their mesh and rank. Where the plan says otherwise it wins.
std::optional<Warning> axes_notice(const SourceCheckpoint& source, const layout::Mesh& mesh) {
  std::vector<std::string> planned = axes_text(mesh);
  const auto is_idle = [](const std::string& axis) { return axis.ends_with("=1"); };
  std::erase_if(planned, is_idle);
  for (std::size_t f = 0; f < source.files().size(); ++f) {
    std::optional<std::vector<std::string>> recorded = source.files()[f].axes;
    if (!recorded) continue;
    std::erase_if(*recorded, is_idle);
    if (*recorded == planned) continue;
    return Warning{"W_AXES", (source.root() / source.file_names()[f]).string(), kNoTensor,
                   fmt::format("records the axes [{}], the plan says [{}]; the plan's are taken",
                               fmt::join(*recorded, ", "), fmt::join(planned, ", ")),
                   true};
  }
  std::vector<bool> is_told(source.files().size(), false);  // ranks that share a file record the lowest one
  const std::vector<std::size_t> file_of_rank = source.file_of_rank();
  for (std::size_t rank = 0; rank < file_of_rank.size(); ++rank) {
    const std::size_t file = file_of_rank[rank];
    const std::optional<std::int64_t>& recorded = source.files()[file].rank;
    if (is_told[file] || !recorded || !source.files()[file].axes) continue;
    is_told[file] = true;
    if (*recorded == static_cast<std::int64_t>(rank)) continue;
    return Warning{"W_AXES", (source.root() / source.file_names()[file]).string(), kNoTensor,
                   fmt::format("records that it is of rank {}, by the plan it is of rank {}; the plan's is taken",
                               *recorded, rank),
                   true};
  }
  return std::nullopt;
}

/// The same coordinates for every rank, axes of size 1 apart.
bool same_mesh(const layout::Mesh& a, const layout::Mesh& b) {
  const auto cutting = [](const layout::Mesh& mesh) {
    std::vector<layout::Axis> axes = mesh.axes();
    std::erase_if(axes, [](const layout::Axis& axis) { return axis.size == 1; });
    return axes;
  };
  const auto ranks = [](const layout::Mesh& mesh) {
    std::vector<Index> out = mesh.ranks();
    if (out.empty())
      for (Index rank = 0; rank < mesh.size(); ++rank) out.push_back(rank);
    return out;
  };
  return cutting(a) == cutting(b) && ranks(a) == ranks(b);
}

/// Where plan and manifest both speak of the source's mesh or of a view they agree.
void check_meshes(const plan::ParallelPlan& plan, const Manifest& manifest) {
  IssueList issues;
  const auto check = [&](const std::string& what, const layout::Mesh& ours, const layout::Mesh& theirs) {
    if (!same_mesh(ours, theirs))
      issues.add(
          {ErrorCode::kMeshWorld, plan.name, kNoTensor,
           fmt::format("{} {} {}, but {} says {}", what, what == "axes" ? "of the source are" : "of the source is",
                       mesh_text(ours), manifest.path.string(), mesh_text(theirs))});
  };
  check("axes", plan.source.mesh, manifest.side.mesh);
  for (const plan::View& view : manifest.side.views)
    if (plan.source.has_view(view.name))
      check(fmt::format("view '{}'", view.name), plan.source.mesh_of(view.name), view.mesh);
  issues.throw_if_any(Exit::kCheckpoint);
}

/// Which files make the source up: as the plan says, else as the manifest does.
plan::Side files_of(const plan::Side& side, const Manifest& manifest) {
  plan::Side out = side.files ? side : manifest.side;
  out.format = side.format ? side.format : manifest.side.format;
  return out;
}

std::string plan_text(const fs::path& file) {
  try {
    return read_text(file, kPlanBytes);
  } catch (const Error& error) {
    if (error.issues().front().code == ErrorCode::kFormat && fs::is_regular_file(file))
      throw Error(Exit::kPlan, {Issue{ErrorCode::kSyntax, file.string(), kNoTensor, error.issues().front().message}});
    throw Error(Exit::kUsage, {Issue{ErrorCode::kUsage, file.string(), kNoTensor,
                                     fmt::format("the plan file cannot be read: {}", error.issues().front().message)}});
  }
}

}  // namespace

LoadedPlan load_plan(const PrepareOptions& options) {
  std::vector<fs::path> inputs = {options.plan_file};
  if (options.source) inputs.push_back(*options.source);
  if (options.output) check_output(*options.output, inputs);
  const std::string text = plan_text(options.plan_file);
  const std::string name = options.plan_file.string();
  const plan::Notation notation = plan::notation_of(name);
  std::optional<fs::path> source = options.source;
  if (!source) source = plan::read_path(plan::Role::kSource, text, notation, name, options.plan);
  std::optional<fs::path> target = options.target;
  if (!target) target = plan::read_path(plan::Role::kTarget, text, notation, name, options.plan);
  if (options.output && source) check_output(*options.output, {*source});
  if (options.output && target) check_output_beside(*options.output, *target);
  LoadedPlan out;
  if (source) out.manifest = find_manifest(*source);
  plan::PlanOptions plan_options = options.plan;
  if (out.manifest) plan_options.manifest_source = out.manifest->side;
  out.plan = plan::read_plan(text, notation, name, plan_options);
  options.log(fmt::format("{}: {} rules{}", name, out.plan.rules.size(),
                          out.manifest ? ", the source is cut as its manifest says" : ""));
  return out;
}

fs::path source_path(const plan::ParallelPlan& plan, const PrepareOptions& options) {
  if (options.source) return *options.source;
  if (plan.source.path) return *plan.source.path;
  throw Error(
      Issue{ErrorCode::kUsage, "", kNoTensor,
            "no source: give --source DIR or `source: {path: DIR}` in the plan; reshard plan --check needs none"});
}

BoundSource bind_source(LoadedPlan loaded, const PrepareOptions& options, const Formats& formats) {
  plan::ParallelPlan& plan = loaded.plan;
  // Names of formats are checked with the plan alone.
  if (plan.target.format) formats.named(*plan.target.format);
  if (plan.source.format) formats.named(*plan.source.format);
  plan::Side files = plan.source;
  if (loaded.manifest) {
    check_meshes(plan, *loaded.manifest);
    files = files_of(plan.source, *loaded.manifest);
  }
  const fs::path path = source_path(plan, options);
  const bool report = is_report(path);
  if (report && !options.allow_report)
    throw Error(Issue{ErrorCode::kUsage, path.string(), kNoTensor,
                      "is a JSON file, not a checkpoint; `reshard plan` alone takes a report of `reshard inspect`"});
  const Holdings holdings = [&](planner::Index rank, const planner::SourceCatalog& others) {
    // A manifest may cut otherwise than rules that say nothing of the source.
    const std::string held =
        loaded.manifest ? recorded_holdings(*loaded.manifest, rank) : planner::holding_text(plan, rank, others);
    return held.empty() ? held : fmt::format("by the {} holds {}", loaded.manifest ? "manifest" : "plan", held);
  };
  SourceCheckpoint source = report
                                ? SourceCheckpoint::of_report(path, files, formats)
                                : SourceCheckpoint::open(path, files, formats, options.allow_external, options.threads,
                                                         loaded.manifest ? &*loaded.manifest : nullptr, holdings);
  options.log(fmt::format("{}: {} tensors on {} ranks in {} files", path.string(), source.catalog().tensors.size(),
                          source.catalog().ranks, source.file_names().size()));
  planner::BoundPlan bound = planner::bind(plan, source.catalog(), [&](const planner::SourceTensor& tensor) {
    if (report)
      throw Error(Issue{ErrorCode::kMissing, path.string(), tensor.name,
                        "a report holds no values: give the checkpoint, or the cumulative lengths in the plan"});
    return read_numbers(source, options.allow_external, tensor);
  });
  // Last, since what is wrong inside a file says more than its size.
  if (loaded.manifest) source.check_file_list(files, *loaded.manifest);
  check_shared_files(bound, &planner::LayoutPair::source, "source", source.file_of_rank(), source.file_names());
  options.log(fmt::format("{} tensors of the target, cut in {} ways", bound.tensors.size(), bound.layouts.size()));
  std::map<std::string, std::uint64_t> digests;
  if (loaded.manifest)
    for (const auto& [name, tensor] : loaded.manifest->tensors) digests.emplace(name, tensor.digest);
  return {std::move(plan), std::move(source), std::move(bound), std::move(digests)};
}

std::unique_ptr<Prepared> prepare(LoadedPlan loaded, const PrepareOptions& options, const Formats& formats) {
  BoundSource bound = bind_source(std::move(loaded), options, formats);
  auto prepared = std::make_unique<Prepared>(Prepared{
      std::move(bound.plan), std::move(bound.source), std::move(bound.bound), {}, {}, {}, nullptr, {}, {}, {}, {}});
  prepared->recorded_digests = std::move(bound.recorded_digests);
  const format::FileFormat* const target_format =
      prepared->plan.target.format ? &formats.named(*prepared->plan.target.format) : &prepared->source.format();
  {
    const std::string text = canonical_json(prepared->plan.canonical) + '\n' + catalog_text(prepared->source) +
                             records_text(prepared->source.catalog());
    prepared->plan_digest = crc64::to_hex(crc64::digest(std::as_bytes(std::span(text))));
  }
  prepared->source.drop_catalog();
  release_free_memory();
  choose_sources(*prepared);
  options.log("every element of the target is written exactly once");
  prepared->target =
      plan_target_files(prepared->plan.target, prepared->bound, *target_format, prepared->source.metadata());
  prepared->map = std::make_unique<planner::TargetMap>(prepared->target.map(prepared->bound, options.processes));
  choose_transport(*prepared, options);
  options.log(fmt::format("{} files to write, transport {}: {}", prepared->target.files.size(),
                          name(prepared->transport.transport), prepared->transport.why));

  prepared->warnings = prepared->source.warnings();
  if (const std::optional<Warning> notice = axes_notice(prepared->source, prepared->plan.source.mesh))
    prepared->warnings.push_back(*notice);
  if (prepared->bound.tensors.empty())
    prepared->warnings.push_back(
        {"W_EMPTY", prepared->plan.name, kNoTensor,
         fmt::format("no tensor reaches the target: {} of the source are left out", prepared->bound.dropped.size())});
  if (const std::string& files = prepared->target.files_template; !files.ends_with(target_format->extension()))
    for (const auto& other : formats.all())
      if (files.ends_with(other->extension()))
        prepared->warnings.push_back(
            {"W_FORMAT", prepared->plan.name, kNoTensor,
             fmt::format(
                 "'files' of the target is '{}', but what is written is {}, as the {}; say `format: {}`, or name "
                 "the files *{}",
                 files, target_format->name(), prepared->plan.target.format ? "plan says" : "source is", other->name(),
                 target_format->extension())});
  if (target_format->name() == "hdf5")
    for (const auto& [key, value] : prepared->source.metadata())
      prepared->warnings.push_back({"W_METADATA", prepared->source.root().string(), kNoTensor,
                                    fmt::format("HDF5 files hold no text metadata: '{}' is left out", escaped(key))});
  prepared->warnings.insert(prepared->warnings.end(), prepared->bound.warnings.begin(), prepared->bound.warnings.end());
  return prepared;
}

}  // namespace reshard::pipeline
