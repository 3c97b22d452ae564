#include "reshard/pipeline/replicas.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/pipeline/arena.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;
using planner::Tile;

constexpr std::int64_t kTileBytes = std::int64_t{1} << 20;
/// A tile's own bytes are read twice at least: as chosen, and as another rank has them.
constexpr std::int64_t kTilesInMemory = 16;
constexpr std::size_t kIssues = 32;

/// The first element of a tensor that two ranks hold differently.
struct Difference {
  std::size_t tile = 0;
  Index source = 0;  ///< the rank that the run reads
  Index holder = 0;
  Index element = 0;  ///< row-major position in the tensor

  friend auto operator<=>(const Difference&, const Difference&) = default;
};

using Differences = std::map<std::size_t, Difference>;  // by tensor of the bound plan

void keep_first(Differences& differences, std::size_t tensor, const Difference& found) {
  const auto [known, added] = differences.try_emplace(tensor, found);
  if (!added) known->second = std::min(known->second, found);
}

/// The source seen as a target of its own: what every rank stores, as made from the chosen copies. Padding is no copy
/// of anything.
layout::TensorLayout as_target(layout::TensorLayout source) {
  for (layout::DimLayout& dim : source.dims)
    for (layout::DimShard& part : dim.parts)
      for (layout::Pad& pad : part.pads) pad.copy_of.reset();
  return source;
}

/// Whether some element is held more than once.
bool has_copies(const layout::TensorLayout& source) {
  std::int64_t held = 0;
  for (Index rank = 0; rank < source.ranks; ++rank) {
    if (!source.is_present(rank)) continue;
    std::int64_t elements = 1;
    for (const layout::DimLayout& dim : source.dims) {
      const auto part = static_cast<std::size_t>(dim.part_of_rank[static_cast<std::size_t>(rank)]);
      elements = checked_mul(elements, dim.parts[part].true_length());
    }
    held = checked_add(held, elements);
  }
  return held > checked_product(source.shape);
}

/// The first element of a box that differs, by its row-major position in the tensor.
std::optional<Index> first_difference(const layout::CopyBox& box, std::int64_t element_bytes,
                                      std::span<const std::byte> source, std::span<const std::byte> target) {
  const std::size_t outer = box.dims.empty() ? 0 : box.dims.size() - 1;
  const Index run = box.dims.empty() ? 1 : box.dims.back().extent;
  std::vector<Index> at(outer, 0);
  Index from = box.source_offset;
  Index to = box.target_offset;
  Index logical = box.logical_offset;
  if (box.elements() == 0) return std::nullopt;
  while (true) {
    const std::byte* const a = source.data() + from * element_bytes;
    const std::byte* const b = target.data() + to * element_bytes;
    if (std::memcmp(a, b, static_cast<std::size_t>(run * element_bytes)) != 0) {
      const auto same = std::mismatch(a, a + run * element_bytes, b).first - a;
      return logical + same / element_bytes;
    }
    std::size_t dim = outer;
    while (dim > 0) {
      const layout::CopyDim& step = box.dims[dim - 1];
      from += step.source_stride;
      to += step.target_stride;
      logical += step.logical_stride;
      if (++at[dim - 1] < step.extent) break;
      at[dim - 1] = 0;
      from -= step.extent * step.source_stride;
      to -= step.extent * step.target_stride;
      logical -= step.extent * step.logical_stride;
      --dim;
    }
    if (dim == 0) return std::nullopt;
  }
}

/// The tensors of a run that the source holds more than once, and the tiles their copies are compared by.
class ReplicatedTensors {
 public:
  explicit ReplicatedTensors(const Job& job) {
    const std::int64_t tile_bytes = std::min(kTileBytes, job.memory_bytes / kTilesInMemory);
    std::vector<std::optional<bool>> replicated(job.bound.layouts.size());
    std::map<std::pair<std::size_t, std::int64_t>, const planner::Tiling*> known;
    for (std::size_t t = 0; t < job.work.size(); ++t) {
      const std::size_t layout = job.bound.tensors[t].layout;
      const layout::TensorLayout& source = job.bound.layouts[layout].source;
      if (!replicated[layout]) replicated[layout] = has_copies(source);
      if (!*replicated[layout]) continue;
      const std::int64_t element_bytes = job.work[t].source_element_bytes;
      const planner::Tiling*& tiling = known[{layout, element_bytes}];
      if (tiling == nullptr) {
        tilings_.push_back(std::make_unique<planner::Tiling>(source, as_target(source),
                                                             std::max<Index>(1, tile_bytes / element_bytes)));
        tiling = tilings_.back().get();
      }
      tensors_.push_back(t);
      planner::WorkTensor work;
      work.tiling = tiling;
      work.sources = job.work[t].sources;
      work.source_element_bytes = work.target_element_bytes = element_bytes;
      work_.push_back(std::move(work));
    }
    tiles_.emplace(work_);
  }

  std::size_t tiles() const { return tiles_->size(); }
  planner::TileId id(std::size_t i) const { return (*tiles_)[i]; }
  Tile tile(planner::TileId id) const { return work_[id.tensor].tiling->tile(id.number, work_[id.tensor].sources); }
  /// The tensor's number in the bound plan.
  std::size_t tensor(planner::TileId id) const { return tensors_[id.tensor]; }

 private:
  std::vector<std::unique_ptr<planner::Tiling>> tilings_;
  std::vector<std::size_t> tensors_;
  std::vector<planner::WorkTensor> work_;
  std::optional<planner::TileList> tiles_;
};

/// A tile without the parts that lie in no other file than the chosen ones.
struct Comparison {
  Tile tile;
  std::vector<std::vector<Index>> holders;  ///< by target of the tile: the ranks to be compared, never empty
};

Comparison comparison_of(const Job& job, std::size_t tensor, const Tile& tile) {
  const std::string& name = job.bound.tensors[tensor].source_stored_name;
  const auto file = [&](Index rank) { return job.source.locate(rank, name).file; };
  std::vector<std::vector<std::size_t>> chosen(tile.targets.size());  // files, by target
  for (const layout::CopyBox& box : tile.copies) chosen[box.target].push_back(file(tile.sources[box.source].rank));
  Comparison out;
  std::vector<bool> wanted;
  for (std::size_t p = 0; p < tile.targets.size(); ++p) {
    std::vector<Index> holders;
    std::vector<std::size_t> seen;  // ranks that share a file share its bytes
    for (const Index rank : tile.targets[p].ranks) {
      const std::size_t here = file(rank);
      if (std::find(seen.begin(), seen.end(), here) != seen.end()) continue;
      seen.push_back(here);
      if (std::any_of(chosen[p].begin(), chosen[p].end(), [&](std::size_t other) { return other != here; }))
        holders.push_back(rank);
    }
    wanted.push_back(!holders.empty());
    if (!holders.empty()) out.holders.push_back(std::move(holders));
  }
  if (!out.holders.empty()) out.tile = planner::restricted(tile, wanted);
  return out;
}

std::int64_t memory_of(const Comparison& comparison, std::int64_t element_bytes) {
  std::int64_t out = 0;
  for (const planner::SourcePart& part : comparison.tile.sources)
    out += planner::buffer_bytes(read_bytes(part, element_bytes));
  std::int64_t most = 0;
  for (const planner::TargetPart& part : comparison.tile.targets)
    most = std::max(most, planner::buffer_bytes(part.elements * element_bytes));
  return out + most;
}

void compare(const Job& job, std::size_t tensor, std::size_t number, const Comparison& comparison, Arena& arena,
             Differences& differences) {
  const std::int64_t element_bytes = job.work[tensor].source_element_bytes;
  const Tile& tile = comparison.tile;
  arena.reset();
  std::vector<std::span<std::byte>> sources;
  for (const planner::SourcePart& part : tile.sources) {
    sources.push_back(arena.take(read_bytes(part, element_bytes)));
    read_part(job, tensor, part, sources.back());
  }
  const std::vector<layout::CopyBox> copies = buffer_copies(tile, element_bytes);
  const std::int64_t mark = arena.mark();
  for (std::size_t p = 0; p < tile.targets.size(); ++p) {
    const planner::TargetPart& part = tile.targets[p];
    for (const Index holder : comparison.holders[p]) {
      arena.rewind(mark);
      const std::span<std::byte> held = arena.take(part.elements * element_bytes);
      read_part(job, tensor, {holder, part.first, 1, part.elements, 0, part.elements}, held);
      for (const layout::CopyBox& box : copies) {
        if (box.target != p) continue;
        if (const auto element = first_difference(box, element_bytes, sources[box.source], held))
          keep_first(differences, tensor, {number, tile.sources[box.source].rank, holder, *element});
      }
    }
  }
}

/// What this process finds in its share of the tiles, and the peak of its memory.
std::int64_t compare_share(const Job& job, Differences& out) {
  const ReplicatedTensors replicated(job);
  const auto first = static_cast<std::size_t>(job.communicator.rank());
  const auto step = static_cast<std::size_t>(job.communicator.size());
  std::int64_t most = 0;
  for (std::size_t i = first; i < replicated.tiles(); i += step) {
    const std::size_t tensor = replicated.tensor(replicated.id(i));
    most = std::max(most, memory_of(comparison_of(job, tensor, replicated.tile(replicated.id(i))),
                                    job.work[tensor].source_element_bytes));
  }
  if (most == 0) return 0;
  const std::int64_t arena_bytes = planner::buffer_bytes(most);
  if (arena_bytes > job.memory_bytes)
    throw Error(Issue{ErrorCode::kMemory, "", "",
                      fmt::format("--memory {} is too small to compare replicas: at least {} bytes are needed",
                                  job.memory_bytes, arena_bytes)});

  const auto threads = static_cast<int>(std::clamp<std::int64_t>(job.memory_bytes / arena_bytes, 1, job.threads));
  std::vector<Arena> arenas;
  for (int i = 0; i < threads; ++i) arenas.emplace_back(arena_bytes);
  std::vector<Differences> found(arenas.size());
  std::atomic<std::size_t> next = first;
  std::atomic<bool> stop = false;
  parallel_for(threads, arenas.size(), [&](std::size_t w) {
    try {
      for (std::size_t i = next.fetch_add(step); i < replicated.tiles() && !stop; i = next.fetch_add(step)) {
        check_interrupted(job);
        if (std::this_thread::get_id() == job.main_thread && job.communicator.alarm_raised()) stop = true;
        const std::size_t tensor = replicated.tensor(replicated.id(i));
        const Comparison comparison = comparison_of(job, tensor, replicated.tile(replicated.id(i)));
        if (!comparison.holders.empty()) compare(job, tensor, replicated.id(i).number, comparison, arenas[w], found[w]);
      }
    } catch (...) {
      stop = true;
      throw;
    }
  });
  std::int64_t peak = 0;
  for (const Arena& arena : arenas) peak += arena.peak_bytes();
  for (const Differences& differences : found)
    for (const auto& [tensor, difference] : differences) keep_first(out, tensor, difference);
  return peak;
}

/// The first difference of each tensor over all processes.
Differences gathered(const Job& job, const Differences& mine) {
  std::string text;
  for (const auto& [tensor, difference] : mine)
    text += fmt::format("{} {} {} {} {}\n", tensor, difference.tile, difference.source, difference.holder,
                        difference.element);
  Differences out;
  for (const std::string& theirs : job.communicator.all_gather(text)) {
    std::istringstream lines(theirs);
    std::size_t tensor = 0;
    Difference difference;
    while (lines >> tensor >> difference.tile >> difference.source >> difference.holder >> difference.element)
      keep_first(out, tensor, difference);
  }
  return out;
}

Issue issue_of(const Job& job, std::size_t t, const Difference& difference) {
  const planner::BoundTensor& tensor = job.bound.tensors[t];
  const Shape& shape = job.bound.layouts[tensor.layout].source.shape;
  Shape coordinates(shape.size());
  Index left = difference.element;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    coordinates[dim] = left % shape[dim];
    left /= shape[dim];
  }
  const auto file = [&](Index rank) {
    return job.source.file_names()[job.source.locate(rank, tensor.source_stored_name).file];
  };
  return {ErrorCode::kReplica, (job.source.root() / file(difference.holder)).string(), tensor.source_name,
          fmt::format("differs from its copy in {} at element [{}] (ranks {} and {})", file(difference.source),
                      fmt::join(coordinates, ", "), difference.holder, difference.source)};
}

}  // namespace

std::int64_t check_replicas(const Job& job) {
  Differences mine;
  std::int64_t peak = 0;
  exchange::agreed(job.communicator, [&] { peak = compare_share(job, mine); });
  const Differences differences = gathered(job, mine);
  exchange::agreed(job.communicator, [&] {
    IssueList issues;
    for (const auto& [tensor, difference] : differences)
      if (issues.issues().size() < kIssues) issues.add(issue_of(job, tensor, difference));
    if (differences.size() > kIssues)
      issues.add({ErrorCode::kReplica, job.source.root().string(), "",
                  fmt::format("{} more tensors have copies that differ", differences.size() - kIssues)});
    issues.throw_if_any(Exit::kCheckpoint);
  });
  return peak;
}

}  // namespace reshard::pipeline
