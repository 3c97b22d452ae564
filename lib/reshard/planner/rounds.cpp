#include "reshard/planner/rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reshard/base/error.hpp"

namespace reshard::planner {

Rounds::Rounds(std::span<const WorkTensor> tensors, const TargetMap& targets, int processes, std::int64_t bound_bytes,
               const Selection& selected)
    : tensors_(tensors),
      writers_(tensor_writers(tensors, targets)),
      processes_(processes),
      bound_bytes_(bound_bytes),
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

std::vector<std::int64_t> Rounds::bytes_of(const RoundTile& tile) const {
  const WorkTensor& tensor = tensors_[tile.id.tensor];
  std::vector<std::int64_t> held(static_cast<std::size_t>(processes_), 0);
  for (std::size_t s = 0; s < tile.readers.size(); ++s)
    held[static_cast<std::size_t>(tile.readers[s])] +=
        buffer_bytes(tile.tile.sources[s].span_elements() * tensor.source_element_bytes);
  for (std::size_t t = 0; t < tile.writers.size(); ++t)
    for (const ProcessRank writer : tile.writers[t])
      held[static_cast<std::size_t>(writer)] +=
          buffer_bytes(tile.tile.targets[t].elements * tensor.target_element_bytes);
  for (const layout::CopyBox& box : tile.tile.copies) {
    const ProcessRank reader = tile.readers[box.source];
    const std::int64_t packed = box.elements() * tensor.target_element_bytes;
    // A conversion packs what it converts first.
    if (tensor.converts())
      held[static_cast<std::size_t>(reader)] +=
          buffer_bytes(box.elements() * tensor.source_element_bytes) + buffer_bytes(packed);
    for (const ProcessRank writer : tile.writers[box.target]) {
      if (writer == reader) continue;
      held[static_cast<std::size_t>(reader)] += buffer_bytes(packed + kRegisterBytes);
      held[static_cast<std::size_t>(writer)] += buffer_bytes(packed + kRegisterBytes);
    }
  }
  return held;
}

bool Rounds::wait_for_next() {
  const std::optional<TileId> id = take();
  if (!id) return false;
  waiting_ = assigned(*id, read_bytes_);
  taken_bytes_[static_cast<std::size_t>(waiting_->writers.front().front())] +=
      waiting_->tile.target_elements() * tensors_[id->tensor].target_element_bytes;
  return true;
}

std::int64_t Rounds::largest_left() {
  std::int64_t out = 0;
  do {
    const std::vector<std::int64_t> held = bytes_of(*waiting_);
    out = std::max(out, *std::max_element(held.begin(), held.end()));
  } while (wait_for_next());
  return out;
}

std::optional<std::vector<RoundTile>> Rounds::next() {
  std::vector<RoundTile> round;
  held_.assign(static_cast<std::size_t>(processes_), 0);
  while (true) {
    if (!waiting_ && !wait_for_next()) break;
    const std::vector<std::int64_t> more = bytes_of(*waiting_);
    const std::int64_t most = *std::max_element(more.begin(), more.end());
    if (most > bound_bytes_)
      throw Error(Issue{ErrorCode::kMemory, "", "",
                        fmt::format("--memory {} is too small to make progress: at least {} bytes are needed",
                                    bound_bytes_, largest_left())});
    bool fits = true;
    for (std::size_t p = 0; p < held_.size(); ++p) fits = fits && held_[p] + more[p] <= bound_bytes_;
    if (!fits) break;
    for (std::size_t p = 0; p < held_.size(); ++p) held_[p] += more[p];
    round.push_back(std::move(*waiting_));
    waiting_.reset();
  }
  if (round.empty()) return std::nullopt;
  return round;
}

}  // namespace reshard::planner
