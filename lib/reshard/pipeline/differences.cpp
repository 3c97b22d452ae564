#include "reshard/pipeline/differences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <thread>
#include <tuple>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/exchange/box.hpp"
#include "reshard/exchange/convert.hpp"
#include "reshard/pipeline/arena.hpp"
#include "reshard/pipeline/job.hpp"

namespace reshard::pipeline {
namespace {

using exchange::Side;
using layout::CopyBox;
using planner::Index;
using planner::Tile;

constexpr std::int64_t kTileBytes = std::int64_t{1} << 20;
/// A tile's own bytes are read twice at least: as chosen, and as another rank has them.
constexpr std::int64_t kTilesInMemory = 16;

/// A layout without what padding repeats: padding is no copy of anything.
layout::TensorLayout without_fill(layout::TensorLayout layout) {
  for (layout::DimLayout& dim : layout.dims)
    for (layout::DimShard& part : dim.parts)
      for (layout::Pad& pad : part.pads) pad.copy_of.reset();
  return layout;
}

/// The first element of a box that differs, by its row-major position in the tensor.
std::optional<Index> first_difference(const CopyBox& box, std::int64_t element_bytes, std::span<const std::byte> source,
                                      std::span<const std::byte> target) {
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

/// The pairs as tiles, all numbered in one line.
class PairTiles {
 public:
  PairTiles(const std::vector<TensorPair>& pairs, std::int64_t memory_bytes) : pairs_(pairs) {
    const std::int64_t tile_bytes = std::min(kTileBytes, memory_bytes / kTilesInMemory);
    std::map<std::tuple<const layout::TensorLayout*, const layout::TensorLayout*, std::int64_t>, const planner::Tiling*>
        known;
    for (const TensorPair& pair : pairs) {
      const std::int64_t element_bytes = std::max(size_bytes(pair.one.dtype), size_bytes(pair.other.dtype));
      const planner::Tiling*& tiling = known[{pair.one.layout, pair.other.layout, element_bytes}];
      if (tiling == nullptr) {
        tilings_.push_back(std::make_unique<planner::Tiling>(*pair.one.layout, without_fill(*pair.other.layout),
                                                             std::max<Index>(1, tile_bytes / element_bytes)));
        tiling = tilings_.back().get();
      }
      of_pair_.push_back(tiling);
      starts_.push_back(starts_.back() + tiling->size());
    }
  }

  std::size_t size() const { return starts_.back(); }
  std::size_t pair_of(std::size_t i) const {
    return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), i) - starts_.begin()) - 1;
  }
  Tile tile(std::size_t i) const {
    const std::size_t pair = pair_of(i);
    return of_pair_[pair]->tile(i - starts_[pair], pairs_[pair].sources);
  }

 private:
  const std::vector<TensorPair>& pairs_;
  std::vector<std::unique_ptr<planner::Tiling>> tilings_;
  std::vector<const planner::Tiling*> of_pair_;
  std::vector<std::size_t> starts_ = {0};
};

/// A tile without the parts that need no comparison.
struct Comparison {
  Tile tile;
  std::vector<std::vector<Index>> holders;  ///< by target of the tile: the ranks to be compared, never empty
};

/// Compares tiles in memory of its own.
class Comparer {
 public:
  Comparer(const OpenCheckpoint& one, const OpenCheckpoint& other, const std::vector<TensorPair>& pairs,
           const DifferenceOptions& options)
      : one_(one), other_(other), pairs_(pairs), options_(options) {}

  Comparison comparison_of(std::size_t p, const Tile& tile) const {
    const TensorPair& pair = pairs_[p];
    const bool same_checkpoint = &one_.files == &other_.files;
    std::vector<std::vector<std::size_t>> chosen(tile.targets.size());  // files, by target
    for (const CopyBox& box : tile.copies)
      chosen[box.target].push_back(one_.files.locate(tile.sources[box.source].rank, pair.one.stored_name).file);
    Comparison out;
    std::vector<bool> wanted;
    for (std::size_t t = 0; t < tile.targets.size(); ++t) {
      std::vector<Index> holders;
      std::vector<std::size_t> seen;  // ranks that share a file share its bytes
      for (const Index rank : tile.targets[t].ranks) {
        const std::size_t here = other_.files.locate(rank, pair.other.stored_name).file;
        if (std::find(seen.begin(), seen.end(), here) != seen.end()) continue;
        seen.push_back(here);
        if (std::any_of(chosen[t].begin(), chosen[t].end(),
                        [&](std::size_t file) { return !same_checkpoint || file != here; }))
          holders.push_back(rank);
      }
      wanted.push_back(!holders.empty());
      if (!holders.empty()) out.holders.push_back(std::move(holders));
    }
    if (!out.holders.empty()) out.tile = planner::restricted(tile, wanted);
    return out;
  }

  std::int64_t memory_of(std::size_t p, const Comparison& comparison) const {
    const TensorPair& pair = pairs_[p];
    std::int64_t out = 0;
    for (const planner::SourcePart& part : comparison.tile.sources)
      out += planner::buffer_bytes(read_bytes(part, size_bytes(pair.one.dtype)));
    std::int64_t most = 0;
    for (const planner::TargetPart& part : comparison.tile.targets)
      most = std::max(most, planner::buffer_bytes(part.elements * size_bytes(pair.other.dtype)));
    Index largest = 0;
    for (const CopyBox& box : comparison.tile.copies) largest = std::max(largest, box.elements());
    for (const Dtype dtype : {pair.one.dtype, pair.other.dtype})
      if (dtype != pair.as)
        most +=
            planner::buffer_bytes(largest * size_bytes(dtype)) + planner::buffer_bytes(largest * size_bytes(pair.as));
    return out + most;
  }

  /// The first difference in a tile, kept in `found` where none before it is known.
  void compare(std::size_t p, const Comparison& comparison, Arena& arena,
               std::map<std::size_t, Difference>& found) const {
    const TensorPair& pair = pairs_[p];
    const Tile& tile = comparison.tile;
    arena.reset();
    std::vector<std::span<std::byte>> sources;
    for (const planner::SourcePart& part : tile.sources) {
      sources.push_back(arena.take(read_bytes(part, size_bytes(pair.one.dtype))));
      read(one_, pair.one, part, sources.back());
    }
    const std::vector<CopyBox> copies = buffer_copies(tile, size_bytes(pair.one.dtype));
    const std::int64_t mark = arena.mark();
    for (std::size_t t = 0; t < tile.targets.size(); ++t) {
      const planner::TargetPart& part = tile.targets[t];
      for (const Index holder : comparison.holders[t]) {
        arena.rewind(mark);
        const std::span<std::byte> held = arena.take(part.elements * size_bytes(pair.other.dtype));
        read(other_, pair.other, {holder, part.first, 1, part.elements, 0, part.elements}, held);
        for (const CopyBox& box : copies) {
          if (box.target != t) continue;
          const std::int64_t before = arena.mark();
          if (const auto element = difference_of(pair, box, sources[box.source], held, arena))
            keep_first(found, p, {*element, tile.sources[box.source].rank, holder});
          arena.rewind(before);
        }
        if (options_.progress_bytes != nullptr) *options_.progress_bytes += std::ssize(held);
      }
    }
  }

  static void keep_first(std::map<std::size_t, Difference>& found, std::size_t p, const Difference& difference) {
    const auto [known, added] = found.try_emplace(p, difference);
    if (!added) known->second = std::min(known->second, difference);
  }

 private:
  void read(const OpenCheckpoint& checkpoint, const HeldTensor& tensor, const planner::SourcePart& part,
            std::span<std::byte> out) const {
    const SourceLocation location = checkpoint.files.locate(part.rank, tensor.stored_name);
    std::optional<StageTimer> timer;
    if (options_.ledger != nullptr) timer.emplace(*options_.ledger, Stage::kRead, std::ssize(out));
    read_part(checkpoint.readers, location, part, size_bytes(tensor.dtype), out);
  }

  static std::optional<Index> difference_of(const TensorPair& pair, CopyBox box, std::span<const std::byte> source,
                                            std::span<const std::byte> target, Arena& arena) {
    if (pair.one.dtype != pair.as) source = converted(pair.one.dtype, pair.as, Side::kSource, box, source, arena);
    if (pair.other.dtype != pair.as) target = converted(pair.other.dtype, pair.as, Side::kTarget, box, target, arena);
    return first_difference(box, size_bytes(pair.as), source, target);
  }

  /// The elements of a box, packed and converted; the box then says so.
  static std::span<const std::byte> converted(Dtype from, Dtype to, Side side, CopyBox& box,
                                              std::span<const std::byte> buffer, Arena& arena) {
    const std::span<std::byte> packed = arena.take(box.elements() * size_bytes(from));
    const std::span<std::byte> out = arena.take(box.elements() * size_bytes(to));
    exchange::pack_box(box, side, size_bytes(from), buffer, packed);
    exchange::convert(from, packed, to, out);
    (side == Side::kSource ? box.source_offset : box.target_offset) = 0;
    Index stride = 1;
    for (std::size_t d = box.dims.size(); d-- > 0;) {
      (side == Side::kSource ? box.dims[d].source_stride : box.dims[d].target_stride) = stride;
      stride *= box.dims[d].extent;
    }
    return out;
  }

  const OpenCheckpoint& one_;
  const OpenCheckpoint& other_;
  const std::vector<TensorPair>& pairs_;
  const DifferenceOptions& options_;
};

/// What this process finds in its share of the tiles.
Differences compare_share(const Comparer& comparer, const PairTiles& tiles, const DifferenceOptions& options,
                          exchange::Communicator& communicator) {
  Differences out;
  const auto first = static_cast<std::size_t>(communicator.rank());
  const auto step = static_cast<std::size_t>(communicator.size());
  std::int64_t most = 0;
  for (std::size_t i = first; i < tiles.size(); i += step) {
    const std::size_t pair = tiles.pair_of(i);
    most = std::max(most, comparer.memory_of(pair, comparer.comparison_of(pair, tiles.tile(i))));
  }
  if (most == 0) return out;
  const std::int64_t arena_bytes = planner::buffer_bytes(most);
  if (arena_bytes > options.memory_bytes)
    throw Error(Issue{ErrorCode::kMemory, "", kNoTensor,
                      fmt::format("--memory {} is too small to compare copies: at least {} bytes are needed",
                                  options.memory_bytes, arena_bytes)});

  const auto threads =
      static_cast<int>(std::clamp<std::int64_t>(options.memory_bytes / arena_bytes, 1, options.threads));
  std::vector<Arena> arenas;
  for (int i = 0; i < threads; ++i) arenas.emplace_back(arena_bytes);
  std::vector<std::map<std::size_t, Difference>> found(arenas.size());
  std::atomic<std::size_t> next = first;
  std::atomic<bool> stop = false;
  const std::thread::id main_thread = std::this_thread::get_id();
  parallel_for(threads, arenas.size(), [&](std::size_t w) {
    try {
      for (std::size_t i = next.fetch_add(step); i < tiles.size() && !stop; i = next.fetch_add(step)) {
        check_interrupted(options.interrupted, "not everything was compared");
        // MPI belongs to the thread that initialised it.
        if (std::this_thread::get_id() == main_thread && communicator.alarm_raised()) stop = true;
        const std::size_t pair = tiles.pair_of(i);
        const Comparison comparison = comparer.comparison_of(pair, tiles.tile(i));
        if (!comparison.holders.empty()) comparer.compare(pair, comparison, arenas[w], found[w]);
      }
    } catch (...) {
      stop = true;
      throw;
    }
  });
  for (const Arena& arena : arenas) out.peak_bytes += arena.peak_bytes();
  for (const auto& of_worker : found)
    for (const auto& [pair, difference] : of_worker) Comparer::keep_first(out.first, pair, difference);
  return out;
}

/// The first difference of each pair over all processes.
std::map<std::size_t, Difference> gathered(const std::map<std::size_t, Difference>& mine,
                                           exchange::Communicator& communicator) {
  std::string text;
  for (const auto& [pair, difference] : mine)
    text += fmt::format("{} {} {} {}\n", pair, difference.element, difference.one_rank, difference.other_rank);
  std::map<std::size_t, Difference> out;
  for (const std::string& theirs : communicator.all_gather(text)) {
    std::istringstream lines(theirs);
    std::size_t pair = 0;
    Difference difference;
    while (lines >> pair >> difference.element >> difference.one_rank >> difference.other_rank)
      Comparer::keep_first(out, pair, difference);
  }
  return out;
}

}  // namespace

Differences first_differences(const OpenCheckpoint& one, const OpenCheckpoint& other,
                              const std::vector<TensorPair>& pairs, const DifferenceOptions& options,
                              exchange::Communicator& communicator) {
  Differences out;
  exchange::agreed(communicator, [&] {
    const PairTiles tiles(pairs, options.memory_bytes);
    out = compare_share(Comparer(one, other, pairs, options), tiles, options, communicator);
  });
  out.first = gathered(out.first, communicator);
  return out;
}

bool has_copies(const layout::TensorLayout& layout) {
  std::int64_t held = 0;
  for (Index rank = 0; rank < layout.ranks; ++rank) {
    if (!layout.is_present(rank)) continue;
    std::int64_t elements = 1;
    for (const layout::DimLayout& dim : layout.dims) {
      const auto part = static_cast<std::size_t>(dim.part_of(rank));
      elements = checked_mul(elements, dim.parts[part].true_length());
    }
    held = checked_add(held, elements);
  }
  return held > checked_product(layout.shape);
}

Shape coordinates_of(const Shape& shape, Index element) {
  Shape out(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    out[dim] = element % shape[dim];
    element /= shape[dim];
  }
  return out;
}

}  // namespace reshard::pipeline
