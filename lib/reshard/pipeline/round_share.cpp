#include "reshard/pipeline/round_share.hpp"

#include <algorithm>

#include "reshard/exchange/box.hpp"

namespace reshard::pipeline {

using exchange::Side;

RoundShare::RoundShare(const Job& job, std::vector<planner::RoundTile> tiles, MessageForm form)
    : job_(job), tiles_(std::move(tiles)), me_(job.communicator.rank()) {
  send_bytes.assign(static_cast<std::size_t>(job.communicator.size()), 0);
  receive_bytes = send_bytes;
  for (std::size_t t = 0; t < tiles_.size(); ++t) plan_tile(t, form);
}

void RoundShare::plan_tile(std::size_t t, MessageForm form) {
  const planner::RoundTile& tile = tiles_[t];
  copies_.push_back(buffer_copies(tile.tile, work(t).source_element_bytes));
  registers_.emplace_back(copies_[t].size(), 0);
  source_reads_.emplace_back(tile.tile.sources.size(), kNone);
  for (std::size_t s = 0; s < tile.readers.size(); ++s) {
    if (tile.readers[s] != me_) continue;
    source_reads_[t][s] = reads.size();
    reads.push_back({t, s, pipeline::read_bytes(tile.tile.sources[s], work(t).source_element_bytes)});
  }
  std::vector<std::size_t> write_of(tile.tile.targets.size(), kNone);
  for (std::size_t p = 0; p < tile.writers.size(); ++p) {
    if (!std::binary_search(tile.writers[p].begin(), tile.writers[p].end(), me_)) continue;
    write_of[p] = writes.size();
    writes.push_back({t, p, tile.tile.targets[p].elements * work(t).target_element_bytes});
  }
  for (std::size_t c = 0; c < copies_[t].size(); ++c) {
    const layout::CopyBox& box = copies_[t][c];
    const ProcessRank reader = tile.readers[box.source];
    const std::int64_t bytes = packed_bytes(t, c) + form.trailer_bytes;
    const std::int64_t step = (bytes + form.alignment - 1) / form.alignment * form.alignment;
    if (reader == me_) read_copies.emplace_back(t, c);
    for (const ProcessRank writer : tile.writers[box.target]) {
      const auto from = static_cast<std::size_t>(reader);
      const auto to = static_cast<std::size_t>(writer);
      if (writer == reader && !form.to_itself) {
        if (writer == me_) writes[write_of[box.target]].local.push_back(c);
        continue;
      }
      if (reader == me_) {
        sends.push_back({t, c, to, send_bytes[to]});
        send_bytes[to] += step;
      }
      if (writer == me_) {
        writes[write_of[box.target]].received.push_back(receives.size());
        receives.push_back({t, c, from, receive_bytes[from]});
        receive_bytes[from] += step;
      }
    }
  }
}

void RoundShare::read() {
  parallel_for(job_.threads, reads.size(), [&](std::size_t r) {
    const ShareRead& read = reads[r];
    read_part(job_, tiles_[read.tile].id.tensor, tiles_[read.tile].tile.sources[read.part], read.buffer);
  });
  // Every box that leaves a read buffer is digested there once, whoever gets it.
  parallel_for(job_.threads, read_copies.size(), [&](std::size_t i) {
    const auto [t, c] = read_copies[i];
    const layout::CopyBox& box = copies_[t][c];
    registers_[t][c] = exchange::box_register(box, Side::kSource, work(t).source_element_bytes, source_of(t, box),
                                              work(t).tiling->tensor_elements());
  });
  if (job_.hooks != nullptr)
    for (const ShareRead& read : reads) job_.hooks->on_buffer(BufferStage::kRead, name(read.tile), read.buffer);
}

void RoundShare::write(const ShareWrite& write, std::uint64_t read_register) const {
  const planner::TargetPart& part = tiles_[write.tile].tile.targets[write.part];
  const std::size_t tensor = tiles_[write.tile].id.tensor;
  if (job_.hooks != nullptr) job_.hooks->on_buffer(BufferStage::kUnpacked, name(write.tile), write.buffer);
  std::uint64_t write_register = 0;
  const auto digest = [&](std::size_t c) {
    const layout::CopyBox& box = copies_[write.tile][c];
    const std::uint64_t of_box = exchange::box_register(box, Side::kTarget, work(write.tile).target_element_bytes,
                                                        write.buffer, work(write.tile).tiling->tensor_elements());
    write_register ^= of_box;
    // A part cut between two writers is unpacked by both; the one that writes its first byte counts it.
    if (box.canonical && tiles_[write.tile].writers[write.part].front() == me_)
      job_.ledger.add_tensor(tensor, of_box, box.elements());
  };
  for (const std::size_t c : write.local) digest(c);
  for (const std::size_t number : write.received) digest(receives[number].copy);
  check_target(job_, tensor, part, read_register, write_register);
  write_target(job_, tensor, part, write.buffer);
}

std::int64_t RoundShare::packed_bytes(std::size_t t, std::size_t c) const {
  return copies_[t][c].elements() * work(t).target_element_bytes;
}

std::int64_t RoundShare::bytes_sent() const {
  std::int64_t out = 0;
  for (const ShareSlot& slot : sends)
    if (static_cast<ProcessRank>(slot.peer) != me_) out += packed_bytes(slot.tile, slot.copy);
  return out;
}

}  // namespace reshard::pipeline
