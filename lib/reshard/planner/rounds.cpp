#include "reshard/planner/rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reshard/base/error.hpp"

namespace reshard::planner {
namespace {

/// Entries of the table: one walks the innermost dims, so many are made of the outer ones. A last dim without a run,
/// as a repeated element has it, takes the place of one more.
std::int64_t task_count(const layout::CopyBox& box) {
  const bool has_run = !box.dims.empty() && box.dims.back().source_stride == 1 && box.dims.back().target_stride == 1;
  const std::size_t inner = has_run ? kTaskDims : kTaskDims - 1;
  std::int64_t out = 1;
  for (std::size_t i = inner; i < box.dims.size(); ++i) out *= box.dims[i - inner].extent;
  return out;
}

}  // namespace

Rounds::Rounds(std::span<const WorkTensor> tensors, const TargetMap& targets, int processes, RoundBound bound,
               const Selection& selected)
    : tensors_(tensors),
      writers_(tensor_writers(tensors, targets)),
      processes_(processes),
      bound_(bound),
      tiles_(tensors, 1, selected),
      queue_(static_cast<std::size_t>(processes)),
      taken_(static_cast<std::size_t>(processes), 0),
      taken_bytes_(static_cast<std::size_t>(processes), 0),
      read_bytes_(static_cast<std::size_t>(processes), 0) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    const TileId id = tiles_[i];
    const WorkTensor& tensor = tensors_[id.tensor];
    const Tile tile = tensor.tiling->tile(id.number, tensor.sources);
    const ProcessRank first_writer = writers_[id.tensor].of(tile.targets.front()).front();
    queue_[static_cast<std::size_t>(first_writer)].push_back(i);
    total += tile.source_elements() * tensor.source_element_bytes;
  }
  share_bytes_ = total / processes_ + total / processes_ / 16;
}

std::optional<TileId> Rounds::take() {
  std::size_t best = queue_.size();
  for (std::size_t p = 0; p < queue_.size(); ++p)
    if (taken_[p] < queue_[p].size() && (best == queue_.size() || taken_bytes_[p] < taken_bytes_[best])) best = p;
  if (best == queue_.size()) return std::nullopt;
  return tiles_[queue_[best][taken_[best]++]];
}

RoundTile Rounds::assigned(TileId id, std::vector<std::int64_t>& read_bytes) const {
  const WorkTensor& tensor = tensors_[id.tensor];
  RoundTile out{id, tensor.tiling->tile(id.number, tensor.sources), {}, {}};
  out.writers = writers_[id.tensor].of(out.tile);

  // Elements of every source part by the process that writes them.
  std::vector<std::map<ProcessRank, Index>> wanted(out.tile.sources.size());
  for (const layout::CopyBox& box : out.tile.copies)
    for (const ProcessRank writer : out.writers[box.target]) wanted[box.source][writer] += box.elements();
  for (std::size_t s = 0; s < out.tile.sources.size(); ++s) {
    const std::int64_t bytes = out.tile.sources[s].span_elements() * tensor.source_element_bytes;
    const auto most = std::max_element(wanted[s].begin(), wanted[s].end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    auto reader = static_cast<std::size_t>(most->first);
    if (read_bytes[reader] + bytes > share_bytes_)
      reader = static_cast<std::size_t>(std::min_element(read_bytes.begin(), read_bytes.end()) - read_bytes.begin());
    read_bytes[reader] += bytes;
    out.readers.push_back(static_cast<ProcessRank>(reader));
  }
  return out;
}

std::vector<RoundMemory> Rounds::memory_of(const RoundTile& tile) const {
  const WorkTensor& tensor = tensors_[tile.id.tensor];
  std::vector<RoundMemory> held(static_cast<std::size_t>(processes_));
  const auto add = [&](ProcessRank process, std::int64_t bytes) {
    RoundMemory& of_process = held[static_cast<std::size_t>(process)];
    if (!bound_.device_bytes) {
      of_process.host_bytes += buffer_bytes(bytes);
    } else {
      of_process.host_bytes += device_buffer_bytes(bytes);
      of_process.device_bytes += device_buffer_bytes(bytes);
    }
  };
  for (std::size_t s = 0; s < tile.readers.size(); ++s)
    add(tile.readers[s], tile.tile.sources[s].span_elements() * tensor.source_element_bytes);
  for (std::size_t t = 0; t < tile.writers.size(); ++t)
    for (const ProcessRank writer : tile.writers[t])
      add(writer, tile.tile.targets[t].elements * tensor.target_element_bytes);
  if (bound_.device_bytes) {
    for (const PadBox& pad : tile.tile.pads)
      for (const ProcessRank writer : tile.writers[pad.box.target]) add(writer, tensor.target_element_bytes);
    add_device_copies(tile, held);
  } else {
    add_host_copies(tile, held);
  }
  return held;
}

void Rounds::add_host_copies(const RoundTile& tile, std::vector<RoundMemory>& held) const {
  const WorkTensor& tensor = tensors_[tile.id.tensor];
  for (const layout::CopyBox& box : tile.tile.copies) {
    const ProcessRank reader = tile.readers[box.source];
    const std::int64_t packed = box.elements() * tensor.target_element_bytes;
    // A conversion packs what it converts first.
    if (tensor.converts())
      held[static_cast<std::size_t>(reader)].host_bytes +=
          buffer_bytes(box.elements() * tensor.source_element_bytes) + buffer_bytes(packed);
    for (const ProcessRank writer : tile.writers[box.target]) {
      if (writer == reader) continue;
      held[static_cast<std::size_t>(reader)].host_bytes += buffer_bytes(packed + kRegisterBytes);
      held[static_cast<std::size_t>(writer)].host_bytes += buffer_bytes(packed + kRegisterBytes);
    }
  }
}

void Rounds::add_device_copies(const RoundTile& tile, std::vector<RoundMemory>& held) const {
  const WorkTensor& tensor = tensors_[tile.id.tensor];
  const auto add_tasks = [&](ProcessRank process, std::int64_t tasks) {
    held[static_cast<std::size_t>(process)].tasks += tasks;
  };
  for (std::size_t t = 0; t < tile.writers.size(); ++t)
    for (const ProcessRank writer : tile.writers[t]) add_tasks(writer, tile.tile.targets[t].has_padding ? 1 : 0);
  for (const PadBox& pad : tile.tile.pads)
    for (const ProcessRank writer : tile.writers[pad.box.target]) add_tasks(writer, task_count(pad.box));
  for (const layout::CopyBox& box : tile.tile.copies) {
    const ProcessRank reader = tile.readers[box.source];
    const std::int64_t packed = device_buffer_bytes(box.elements() * tensor.target_element_bytes);
    for (const ProcessRank writer : tile.writers[box.target]) {
      add_tasks(writer, task_count(box));
      if (writer == reader && processes_ > 1) continue;
      // One process sends to itself, so that what it does is what many do.
      add_tasks(reader, task_count(box));
      held[static_cast<std::size_t>(reader)].device_bytes += packed;
      held[static_cast<std::size_t>(writer)].device_bytes += packed;
    }
  }
}

bool Rounds::fits(const std::vector<RoundMemory>& held) const {
  return std::all_of(held.begin(), held.end(), [&](const RoundMemory& of_process) {
    return of_process.host_bytes <= bound_.host_bytes / bound_.in_flight &&
           (!bound_.device_bytes || of_process.device_bytes <= *bound_.device_bytes / bound_.in_flight);
  });
}

bool Rounds::wait_for_next() {
  const std::optional<TileId> id = take();
  if (!id) return false;
  waiting_ = assigned(*id, read_bytes_);
  taken_bytes_[static_cast<std::size_t>(waiting_->writers.front().front())] +=
      waiting_->tile.target_elements() * tensors_[id->tensor].target_element_bytes;
  return true;
}

void Rounds::refuse_bound() {
  RoundMemory least;
  do {
    for (const RoundMemory& of_process : memory_of(*waiting_)) {
      least.host_bytes = std::max(least.host_bytes, of_process.host_bytes);
      least.device_bytes = std::max(least.device_bytes, of_process.device_bytes);
    }
  } while (wait_for_next());
  IssueList issues;
  const auto check = [&](const char* option, std::int64_t given, std::int64_t of_round) {
    const std::int64_t needed = of_round * bound_.in_flight;
    if (needed > given)
      issues.add(
          {ErrorCode::kMemory, "", kNoTensor,
           fmt::format("{} {} is too small to make progress: at least {} bytes are needed", option, given, needed)});
  };
  check("--memory", bound_.host_bytes, least.host_bytes);
  if (bound_.device_bytes) check("--device-memory", *bound_.device_bytes, least.device_bytes);
  issues.throw_if_any(Exit::kMemory);
  internal_error("a round that fits its bound was refused");
}

std::optional<std::vector<RoundTile>> Rounds::next() {
  std::vector<RoundTile> round;
  held_.assign(static_cast<std::size_t>(processes_), {});
  while (true) {
    if (!waiting_ && !wait_for_next()) break;
    std::vector<RoundMemory> more = memory_of(*waiting_);
    if (!fits(more)) refuse_bound();
    std::int64_t most_tasks = 0;
    for (std::size_t p = 0; p < held_.size(); ++p) {
      more[p].host_bytes += held_[p].host_bytes;
      more[p].device_bytes += held_[p].device_bytes;
      more[p].tasks += held_[p].tasks;
      most_tasks = std::max(most_tasks, more[p].tasks);
    }
    if (!round.empty() && (!fits(more) || most_tasks > kRoundTasks)) break;
    held_ = std::move(more);
    round.push_back(std::move(*waiting_));
    waiting_.reset();
  }
  if (round.empty()) return std::nullopt;
  return round;
}

}  // namespace reshard::planner
