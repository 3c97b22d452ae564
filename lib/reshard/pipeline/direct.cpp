#include "reshard/pipeline/direct.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "reshard/exchange/box.hpp"
#include "reshard/pipeline/arena.hpp"
#include "reshard/pipeline/read_run.hpp"
#include "reshard/pipeline/write_run.hpp"

namespace reshard::pipeline {
namespace {

using exchange::Side;
using planner::Tile;
using planner::TileId;
using planner::WorkTensor;

/// Small ones; their descriptions take memory too.
constexpr std::size_t kTilesReadTogether = 256;

/// The part of a tile that a process writes, with what it needs to read; nothing where it writes none of it. `writers`:
/// of every target part.
std::optional<Tile> share_of(Tile tile, const std::vector<std::vector<ProcessRank>>& writers, ProcessRank process) {
  std::vector<bool> wanted;
  std::vector<bool> counted;  // of several writers of a part, the first one's digest counts
  bool any = false;
  for (const std::vector<ProcessRank>& of_part : writers) {
    wanted.push_back(std::binary_search(of_part.begin(), of_part.end(), process));
    counted.push_back(of_part.front() == process);
    any = any || wanted.back();
  }
  if (!any) return std::nullopt;
  for (layout::CopyBox& box : tile.copies) box.canonical = box.canonical && counted[box.target];
  return planner::restricted(tile, wanted);
}

class Worker {
 public:
  /// `place` of this worker among all, from 0 to below 1.
  Worker(const Job& job, const std::vector<planner::TensorWriters>& writers, const DirectMemory& memory, double place)
      : job_(job),
        writers_(writers),
        arena_(memory.arena_bytes),
        read_run_(job, memory.run_bytes),
        run_(job, memory.run_bytes),
        place_(place) {}

  /// Moves this process's share of tiles [begin, end).
  void run(const planner::TileList& tiles, std::size_t begin, std::size_t end) {
    shares_.clear();
    TileId before;
    for (std::size_t i = begin; i < end; ++i) {
      const TileId id = tiles[i];
      std::shared_ptr<const Tile> tile = i > begin && is_cut_alike(before, id) ? shares_.back().tile : tile_of(id);
      if (tile) shares_.push_back({std::move(tile), id.tensor});
      before = id;
    }
    read_run_.begin();
    if (end - begin > 1)
      for (const Share& share : shares_)
        for (const planner::SourcePart& part : share.tile->sources) read_run_.add(share.tensor, part);
    read_run_.read();
    std::size_t piece = 0;
    for (const Share& share : shares_) move(*share.tile, share.tensor, job_.work[share.tensor], piece);
  }

  /// After the last tile.
  void finish() { run_.write(); }

  std::int64_t peak_bytes() const { return arena_.peak_bytes() + read_run_.peak_bytes() + run_.peak_bytes(); }

 private:
  struct Share {
    std::shared_ptr<const Tile> tile;
    std::size_t tensor;
  };

  /// Whether a process alone moves one as the other: small tensors come by the thousand.
  bool is_cut_alike(TileId a, TileId b) const {
    return job_.communicator.size() == 1 && a.number == b.number &&
           job_.work[a.tensor].tiling == job_.work[b.tensor].tiling &&
           job_.work[a.tensor].sources == job_.work[b.tensor].sources;
  }

  /// This process's share of a tile; null where it has none.
  std::shared_ptr<const Tile> tile_of(TileId id) const {
    Tile tile = job_.work[id.tensor].tiling->tile(id.number, job_.work[id.tensor].sources);
    if (job_.communicator.size() == 1) return std::make_shared<const Tile>(std::move(tile));
    const std::vector<std::vector<ProcessRank>> writers = writers_[id.tensor].of(tile);
    std::optional<Tile> share = share_of(std::move(tile), writers, job_.communicator.rank());
    return share ? std::make_shared<const Tile>(std::move(*share)) : nullptr;
  }

  /// `piece`: how many source parts of the tiles before it there were.
  void move(const Tile& tile, std::size_t tensor, const WorkTensor& work, std::size_t& piece) {
    arena_.reset();
    const std::string& name = job_.bound.tensors[tensor].target_name;
    std::vector<std::span<std::byte>> sources;
    for (const planner::SourcePart& part : tile.sources) {
      if (const std::optional<std::span<std::byte>> bytes = read_run_.at(piece++)) {
        sources.push_back(*bytes);
        continue;
      }
      sources.push_back(arena_.take(read_bytes(part, work.source_element_bytes)));
      read_part(job_, tensor, part, sources.back());
    }
    const std::vector<layout::CopyBox> copies = buffer_copies(tile, work.source_element_bytes);

    // Read side: digests in the buffers the files were read into, before anything is moved.
    std::vector<std::uint64_t> read_registers;
    for (const layout::CopyBox& box : copies)
      read_registers.push_back(exchange::box_register(box, Side::kSource, work.source_element_bytes,
                                                      sources[box.source], work.tiling->tensor_elements()));
    if (job_.hooks != nullptr)
      for (const std::span<std::byte> buffer : sources) job_.hooks->on_buffer(BufferStage::kRead, name, buffer);

    std::vector<std::span<std::byte>> targets(tile.targets.size());
    // A small piece goes where the one before it in the file already waits to be written.
    std::optional<planner::WriteRegion> region;
    if (targets.size() == 1) region = job_.writer.only_region(tile.targets[0], tensor, work.target_element_bytes);
    const bool in_run = region && run_.takes(*region);
    if (in_run) targets[0] = run_.take(*region);
    // Another that moves as it is goes from the read buffer to the write call.
    std::vector<bool> stays(copies.size(), false);
    for (std::size_t c = 0; c < copies.size() && !work.converts(); ++c) {
      const layout::CopyBox& box = copies[c];
      if (in_run || box.dims.size() != 1 || box.dims[0].extent != tile.targets[box.target].elements) continue;
      const auto at = static_cast<std::size_t>(box.source_offset * work.source_element_bytes);
      const auto bytes = static_cast<std::size_t>(box.elements() * work.source_element_bytes);
      targets[box.target] = sources[box.source].subspan(at, bytes);
      stays[c] = true;
    }
    for (std::size_t t = 0; t < targets.size(); ++t) {
      if (targets[t].data() == nullptr) targets[t] = arena_.take(tile.targets[t].elements * work.target_element_bytes);
      if (tile.targets[t].has_padding) {
        std::memset(targets[t].data(), 0, targets[t].size());
        fill_padding(tile, t, work, targets[t]);
      }
    }
    for (std::size_t c = 0; c < copies.size(); ++c) {
      const layout::CopyBox& box = copies[c];
      const StageTimer timer(job_.ledger, Stage::kPack, box.elements() * work.target_element_bytes);
      if (work.converts()) {
        const std::uint64_t as_read =
            std::exchange(read_registers[c],
                          convert_box(box, tensor, work, read_registers[c], sources[box.source], targets[box.target]));
        if (box.canonical) job_.ledger.add_source_tensor(tensor, as_read);
      } else if (!stays[c]) {
        exchange::move_box(box, work.source_element_bytes, sources[box.source], targets[box.target]);
      }
    }
    if (job_.hooks != nullptr)
      for (const std::span<std::byte> buffer : targets) job_.hooks->on_buffer(BufferStage::kUnpacked, name, buffer);

    // Write side: the same elements in the buffers that go to the write call.
    std::vector<std::uint64_t> read_sums(tile.targets.size(), 0);
    std::vector<std::uint64_t> write_sums(tile.targets.size(), 0);
    for (std::size_t c = 0; c < copies.size(); ++c) {
      const layout::CopyBox& box = copies[c];
      const std::uint64_t written = exchange::box_register(box, Side::kTarget, work.target_element_bytes,
                                                           targets[box.target], work.tiling->tensor_elements());
      read_sums[box.target] ^= read_registers[c];
      write_sums[box.target] ^= written;
      if (box.canonical) job_.ledger.add_tensor(tensor, written, box.elements());
    }
    // Every worker begins elsewhere: a file is written by one thread at a time, the others would wait.
    const auto first = static_cast<std::size_t>(place_ * static_cast<double>(targets.size()));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const std::size_t t = (first + i) % targets.size();
      check_target(job_, tensor, tile.targets[t], read_sums[t], write_sums[t]);
      if (!in_run) write_target(job_, tensor, tile.targets[t], targets[t]);
    }
  }

  /// Converts one box and returns the register of the converted elements. What is converted is checked against
  /// `as_read`, its register in the read buffer.
  std::uint64_t convert_box(const layout::CopyBox& box, std::size_t tensor, const WorkTensor& work,
                            std::uint64_t as_read, std::span<const std::byte> source, std::span<std::byte> target) {
    const std::int64_t mark = arena_.mark();
    const std::span<std::byte> packed = arena_.take(box.elements() * work.source_element_bytes);
    const std::span<std::byte> converted = arena_.take(box.elements() * work.target_element_bytes);
    exchange::pack_box(box, Side::kSource, work.source_element_bytes, source, packed);
    const std::uint64_t out = convert_packed(job_, box, tensor, as_read, packed, converted);
    exchange::unpack_box(box, Side::kTarget, work.target_element_bytes, converted, target);
    arena_.rewind(mark);
    return out;
  }

  const Job& job_;
  const std::vector<planner::TensorWriters>& writers_;  // by tensor; empty for one process
  Arena arena_;
  std::vector<Share> shares_;
  ReadRun read_run_;
  WriteRun run_;
  double place_;
};

/// Tiles that a thread takes together, so that small ones that lie side by side in a file are its own.
std::size_t tiles_at_a_time(const std::vector<WorkTensor>& work, std::size_t tiles) {
  std::int64_t bytes = 0;
  for (const WorkTensor& tensor : work) bytes += tensor.tiling->tensor_elements() * tensor.target_element_bytes;
  const std::int64_t mean = bytes / static_cast<std::int64_t>(tiles);
  return static_cast<std::size_t>(std::clamp<std::int64_t>(WriteRun::kMostBytes / std::max<std::int64_t>(mean, 1), 1,
                                                           static_cast<std::int64_t>(tiles)));
}

}  // namespace

DirectCost tile_cost(const Tile& tile, const std::vector<bool>& wanted, const WorkTensor& work) {
  DirectCost out;
  const auto is_wanted = [&](std::size_t target) { return wanted.empty() || wanted[target]; };
  std::vector<planner::Columns> columns;
  if (!wanted.empty()) columns = planner::wanted_columns(tile, wanted);
  for (std::size_t s = 0; s < tile.sources.size(); ++s) {
    planner::SourcePart part = tile.sources[s];
    if (!wanted.empty()) {
      if (!columns[s].any()) continue;
      part.column = columns[s].first;
      part.columns = columns[s].end - columns[s].first;
    }
    const std::int64_t bytes = read_bytes(part, work.source_element_bytes);
    out.bytes_read += bytes;
    out.reads += reads(part, work.source_element_bytes);
    out.least_memory_bytes += planner::buffer_bytes(bytes);
  }
  for (std::size_t t = 0; t < tile.targets.size(); ++t)
    if (is_wanted(t))
      out.least_memory_bytes += planner::buffer_bytes(tile.targets[t].elements * work.target_element_bytes);
  if (work.converts()) {
    planner::Index most = 0;
    for (const layout::CopyBox& box : tile.copies)
      if (is_wanted(box.target)) most = std::max(most, box.elements());
    out.least_memory_bytes += planner::buffer_bytes(most * work.source_element_bytes) +
                              planner::buffer_bytes(most * work.target_element_bytes);
  }
  return out;
}

DirectMemory direct_memory(const DirectCost& cost, std::int64_t memory_bytes, int threads) {
  DirectMemory out;
  out.arena_bytes = planner::buffer_bytes(std::max<std::int64_t>(cost.least_memory_bytes, 1));
  out.threads = static_cast<int>(std::clamp<std::int64_t>(memory_bytes / out.arena_bytes, 1, threads));
  out.run_bytes = std::clamp<std::int64_t>((memory_bytes / out.threads - out.arena_bytes) / 2, 0, WriteRun::kMostBytes);
  return out;
}

std::int64_t run_direct(const Job& job, const DirectCost& cost, const planner::Selection& tensors) {
  const DirectMemory memory = direct_memory(cost, job.memory_bytes, job.threads);
  const auto threads = static_cast<std::size_t>(memory.threads);
  const planner::TileList tiles(job.work, memory.threads, tensors);
  if (tiles.size() == 0) return 0;
  std::vector<planner::TensorWriters> writers;
  if (job.communicator.size() > 1) writers = planner::tensor_writers(job.work, job.targets);
  std::vector<Worker> workers;
  for (std::size_t i = 0; i < threads; ++i)
    workers.emplace_back(job, writers, memory, static_cast<double>(i) / static_cast<double>(threads));

  const std::size_t step = tiles_at_a_time(job.work, tiles.size());
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> stop = false;
  parallel_for(memory.threads, threads, [&](std::size_t w) {
    try {
      for (std::size_t i = next.fetch_add(step); i < tiles.size() && !stop; i = next.fetch_add(step)) {
        const std::size_t end = std::min(i + step, tiles.size());
        for (std::size_t t = i; t < end && !stop; t += kTilesReadTogether) {
          check_interrupted(job);
          // MPI belongs to the thread that initialised it: the caller's, which is worker 0's only if it got there
          // first.
          if (std::this_thread::get_id() == job.main_thread && job.communicator.alarm_raised()) stop = true;
          workers[w].run(tiles, t, std::min(t + kTilesReadTogether, end));
        }
      }
      workers[w].finish();
    } catch (...) {
      stop = true;
      throw;
    }
  });
  std::int64_t peak = 0;
  for (const Worker& worker : workers) peak += worker.peak_bytes();
  return peak;
}

}  // namespace reshard::pipeline
