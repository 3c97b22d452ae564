#include "reshard/pipeline/exchanged.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "reshard/exchange/box.hpp"
#include "reshard/pipeline/arena.hpp"

namespace reshard::pipeline {
namespace {

using exchange::Message;
using exchange::Side;
using planner::RoundTile;
using planner::WorkTensor;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

std::int64_t packed_bytes(const layout::CopyBox& box, const WorkTensor& work) {
  return box.elements() * work.target_element_bytes;
}

/// A box in a message: its elements, then, 8 bytes later at the end, its register from the read side.
struct Slot {
  std::size_t tile = 0;
  std::size_t copy = 0;
  std::size_t peer = 0;
  std::int64_t offset = 0;  ///< in the message
};

/// This process's part of one round.
class Round {
 public:
  Round(const Job& job, Arena& arena, const std::vector<RoundTile>& tiles) : job_(job), arena_(arena), tiles_(tiles) {
    me_ = job.communicator.rank();
    const auto processes = static_cast<std::size_t>(job.communicator.size());
    send_bytes_.assign(processes, 0);
    receive_bytes_.assign(processes, 0);
    for (std::size_t i = 0; i < tiles_.size(); ++i) plan_tile(i);
    for (std::size_t p = 0; p < processes; ++p) {
      send_buffers_.push_back(send_bytes_[p] > 0 ? arena_.take(send_bytes_[p]) : std::span<std::byte>());
      receive_buffers_.push_back(receive_bytes_[p] > 0 ? arena_.take(receive_bytes_[p]) : std::span<std::byte>());
    }
  }

  void read() {
    parallel_for(job_.threads, reads_.size(), [&](std::size_t r) {
      const Read& read = reads_[r];
      read_part(job_, tiles_[read.tile].id.tensor, tiles_[read.tile].tile.sources[read.part], read.buffer);
    });
    // Every box that leaves a read buffer is digested there once, whoever gets it.
    parallel_for(job_.threads, sent_copies_.size(), [&](std::size_t i) {
      const auto [t, c] = sent_copies_[i];
      const WorkTensor& work = work_of(t);
      const layout::CopyBox& box = copies_[t][c];
      registers_[t][c] = exchange::box_register(box, Side::kSource, work.source_element_bytes, source_of(t, box),
                                                work.tiling->tensor_elements());
    });
    if (job_.hooks != nullptr)
      for (const Read& read : reads_) job_.hooks->on_buffer(BufferStage::kRead, name_of(read.tile), read.buffer);
  }

  void pack() {
    const StageTimer timer(job_.ledger, Stage::kPack, 0);
    parallel_for(job_.threads, converted_.size(), [&](std::size_t i) { convert(converted_[i]); });
    parallel_for(job_.threads, sends_.size(), [&](std::size_t i) {
      const Slot& slot = sends_[i];
      const WorkTensor& work = work_of(slot.tile);
      const layout::CopyBox& box = copies_[slot.tile][slot.copy];
      const std::int64_t bytes = packed_bytes(box, work);
      const std::span<std::byte> out = send_buffers_[slot.peer].subspan(
          static_cast<std::size_t>(slot.offset), static_cast<std::size_t>(bytes + planner::kRegisterBytes));
      if (work.converts()) {
        const std::span<const std::byte> from = converted_of(slot.tile, slot.copy);
        std::memcpy(out.data(), from.data(), from.size());
      } else {
        exchange::pack_box(box, Side::kSource, work.source_element_bytes, source_of(slot.tile, box),
                           out.first(static_cast<std::size_t>(bytes)));
      }
      std::memcpy(out.data() + bytes, &registers_[slot.tile][slot.copy], planner::kRegisterBytes);
      if (job_.hooks != nullptr) job_.hooks->on_buffer(BufferStage::kPacked, name_of(slot.tile), out);
    });
  }

  void exchange() {
    std::vector<Message> sends;
    std::vector<Message> receives;
    // From the next process on round the ring, so that not everyone begins with process 0.
    const std::size_t processes = send_buffers_.size();
    for (std::size_t step = 1; step < processes; ++step) {
      const std::size_t to = (static_cast<std::size_t>(me_) + step) % processes;
      const std::size_t from = (static_cast<std::size_t>(me_) + processes - step) % processes;
      if (!send_buffers_[to].empty()) sends.push_back({static_cast<ProcessRank>(to), send_buffers_[to]});
      if (!receive_buffers_[from].empty()) receives.push_back({static_cast<ProcessRank>(from), receive_buffers_[from]});
    }
    std::int64_t bytes = 0;
    for (const Slot& slot : sends_) bytes += packed_bytes(copies_[slot.tile][slot.copy], work_of(slot.tile));
    const StageTimer timer(job_.ledger, Stage::kExchange, bytes);
    job_.communicator.exchange(sends, receives);
  }

  void write() {
    if (job_.hooks != nullptr)
      for (const Slot& slot : receives_)
        job_.hooks->on_buffer(BufferStage::kReceived, name_of(slot.tile), received(slot));
    parallel_for(job_.threads, writes_.size(), [&](std::size_t i) { write_part(writes_[i]); });
  }

 private:
  struct Read {
    std::size_t tile = 0;
    std::size_t part = 0;
    std::span<std::byte> buffer;
  };
  struct Write {
    std::size_t tile = 0;
    std::size_t part = 0;
    std::span<std::byte> buffer;
    std::vector<std::size_t> local;     ///< copies whose source this process has read
    std::vector<std::size_t> received;  ///< numbers in receives_
  };
  struct Converted {
    std::size_t tile = 0;
    std::size_t copy = 0;
    std::span<std::byte> packed;
    std::span<std::byte> converted;
  };

  void plan_tile(std::size_t t) {
    const RoundTile& tile = tiles_[t];
    const WorkTensor& work = work_of(t);
    copies_.push_back(buffer_copies(tile.tile, work.source_element_bytes));
    registers_.emplace_back(copies_[t].size(), 0);
    source_reads_.emplace_back(tile.tile.sources.size(), kNone);
    converted_numbers_.emplace_back(copies_[t].size(), kNone);
    for (std::size_t s = 0; s < tile.readers.size(); ++s) {
      if (tile.readers[s] != me_) continue;
      source_reads_[t][s] = reads_.size();
      reads_.push_back({t, s, arena_.take(read_bytes(tile.tile.sources[s], work.source_element_bytes))});
    }
    std::vector<std::size_t> write_of(tile.tile.targets.size(), kNone);
    for (std::size_t p = 0; p < tile.writers.size(); ++p) {
      if (!std::binary_search(tile.writers[p].begin(), tile.writers[p].end(), me_)) continue;
      write_of[p] = writes_.size();
      writes_.push_back({t, p, arena_.take(tile.tile.targets[p].elements * work.target_element_bytes), {}, {}});
    }
    for (std::size_t c = 0; c < copies_[t].size(); ++c) {
      const layout::CopyBox& box = copies_[t][c];
      const ProcessRank reader = tile.readers[box.source];
      const std::int64_t step = planner::buffer_bytes(packed_bytes(box, work) + planner::kRegisterBytes);
      if (reader == me_) {
        sent_copies_.emplace_back(t, c);
        if (work.converts()) {
          converted_numbers_[t][c] = converted_.size();
          converted_.push_back(
              {t, c, arena_.take(box.elements() * work.source_element_bytes), arena_.take(packed_bytes(box, work))});
        }
      }
      for (const ProcessRank writer : tile.writers[box.target]) {
        const auto to = static_cast<std::size_t>(writer);
        if (writer == me_ && reader == me_) {
          writes_[write_of[box.target]].local.push_back(c);
        } else if (reader == me_) {
          sends_.push_back({t, c, to, send_bytes_[to]});
          send_bytes_[to] += step;
        } else if (writer == me_) {
          const auto from = static_cast<std::size_t>(reader);
          writes_[write_of[box.target]].received.push_back(receives_.size());
          receives_.push_back({t, c, from, receive_bytes_[from]});
          receive_bytes_[from] += step;
        }
      }
    }
  }

  void convert(const Converted& item) {
    const WorkTensor& work = work_of(item.tile);
    const layout::CopyBox& box = copies_[item.tile][item.copy];
    const std::uint64_t as_read = registers_[item.tile][item.copy];
    exchange::pack_box(box, Side::kSource, work.source_element_bytes, source_of(item.tile, box), item.packed);
    registers_[item.tile][item.copy] =
        convert_packed(job_, box, tiles_[item.tile].id.tensor, as_read, item.packed, item.converted);
    if (box.canonical) job_.ledger.add_source_tensor(tiles_[item.tile].id.tensor, as_read);
  }

  void write_part(const Write& write) {
    const WorkTensor& work = work_of(write.tile);
    const planner::TargetPart& part = tiles_[write.tile].tile.targets[write.part];
    const std::size_t tensor = tiles_[write.tile].id.tensor;
    std::uint64_t read_sum = 0;
    std::uint64_t write_sum = 0;
    {
      const StageTimer timer(job_.ledger, Stage::kUnpack, static_cast<std::int64_t>(write.buffer.size()));
      if (part.has_padding) {
        std::memset(write.buffer.data(), 0, write.buffer.size());
        fill_padding(tiles_[write.tile].tile, write.part, work, write.buffer);
      }
      for (const std::size_t c : write.local) {
        const layout::CopyBox& box = copies_[write.tile][c];
        read_sum ^= registers_[write.tile][c];
        if (work.converts()) {
          exchange::unpack_box(box, Side::kTarget, work.target_element_bytes, converted_of(write.tile, c),
                               write.buffer);
        } else {
          exchange::move_box(box, work.source_element_bytes, source_of(write.tile, box), write.buffer);
        }
      }
      for (const std::size_t number : write.received) {
        const layout::CopyBox& box = copies_[write.tile][receives_[number].copy];
        const std::span<std::byte> bytes = received(receives_[number]);
        const std::span<std::byte> packed = bytes.first(bytes.size() - planner::kRegisterBytes);
        std::uint64_t as_read = 0;
        std::memcpy(&as_read, packed.data() + packed.size(), planner::kRegisterBytes);
        read_sum ^= as_read;
        exchange::unpack_box(box, Side::kTarget, work.target_element_bytes, packed, write.buffer);
      }
    }
    if (job_.hooks != nullptr) job_.hooks->on_buffer(BufferStage::kUnpacked, name_of(write.tile), write.buffer);
    const auto digest = [&](std::size_t c) {
      const layout::CopyBox& box = copies_[write.tile][c];
      const std::uint64_t reg = exchange::box_register(box, Side::kTarget, work.target_element_bytes, write.buffer,
                                                       work.tiling->tensor_elements());
      write_sum ^= reg;
      // A part cut between two writers is unpacked by both; the one that writes its first byte counts it.
      if (box.canonical && tiles_[write.tile].writers[write.part].front() == me_)
        job_.ledger.add_tensor(tensor, reg, box.elements());
    };
    for (const std::size_t c : write.local) digest(c);
    for (const std::size_t number : write.received) digest(receives_[number].copy);
    check_target(job_, tensor, part, read_sum, write_sum);
    write_target(job_, tensor, part, write.buffer);
  }

  const WorkTensor& work_of(std::size_t t) const { return job_.work[tiles_[t].id.tensor]; }
  const std::string& name_of(std::size_t t) const { return job_.bound.tensors[tiles_[t].id.tensor].target_name; }
  std::span<const std::byte> source_of(std::size_t t, const layout::CopyBox& box) const {
    return reads_[source_reads_[t][box.source]].buffer;
  }
  std::span<const std::byte> converted_of(std::size_t t, std::size_t c) const {
    return converted_[converted_numbers_[t][c]].converted;
  }
  std::span<std::byte> received(const Slot& slot) const {
    const std::int64_t bytes =
        packed_bytes(copies_[slot.tile][slot.copy], work_of(slot.tile)) + planner::kRegisterBytes;
    return receive_buffers_[slot.peer].subspan(static_cast<std::size_t>(slot.offset), static_cast<std::size_t>(bytes));
  }

  const Job& job_;
  Arena& arena_;
  const std::vector<RoundTile>& tiles_;
  ProcessRank me_ = 0;
  std::vector<std::vector<layout::CopyBox>> copies_;         // by tile
  std::vector<std::vector<std::uint64_t>> registers_;        // by tile and copy: as this process has read it
  std::vector<std::vector<std::size_t>> source_reads_;       // by tile and source part: number in reads_
  std::vector<std::vector<std::size_t>> converted_numbers_;  // by tile and copy: number in converted_
  std::vector<Read> reads_;
  std::vector<std::pair<std::size_t, std::size_t>> sent_copies_;  // (tile, copy) whose source this process reads
  std::vector<Converted> converted_;
  std::vector<Slot> sends_;
  std::vector<Slot> receives_;
  std::vector<Write> writes_;
  std::vector<std::int64_t> send_bytes_;
  std::vector<std::int64_t> receive_bytes_;
  std::vector<std::span<std::byte>> send_buffers_;
  std::vector<std::span<std::byte>> receive_buffers_;
};

/// Runs a step unless one before it has failed; an error is kept for the end of the round.
template <typename Step>
void attempt(std::optional<Error>& failure, Step step) {
  if (failure) return;
  try {
    step();
  } catch (const Error& error) {
    failure = error;
  }
}

}  // namespace

ExchangeCost exchange_cost(const std::vector<WorkTensor>& work, const planner::TargetMap& targets, int processes,
                           std::int64_t bound_bytes, const planner::Selection& tensors) {
  ExchangeCost cost;
  cost.bytes_read.assign(static_cast<std::size_t>(processes), 0);
  cost.peak_bytes.assign(static_cast<std::size_t>(processes), 0);
  cost.held = RoundHistory(static_cast<std::size_t>(processes));
  planner::Rounds rounds(work, targets, processes, bound_bytes, tensors);
  while (const auto round = rounds.next()) {
    ++cost.rounds;
    cost.held.add(rounds.held_bytes());
    for (std::size_t p = 0; p < cost.peak_bytes.size(); ++p)
      cost.peak_bytes[p] = std::max(cost.peak_bytes[p], rounds.held_bytes()[p]);
    for (const RoundTile& tile : *round) {
      const WorkTensor& tensor = work[tile.id.tensor];
      for (std::size_t s = 0; s < tile.readers.size(); ++s)
        cost.bytes_read[static_cast<std::size_t>(tile.readers[s])] +=
            read_bytes(tile.tile.sources[s], tensor.source_element_bytes);
      for (const layout::CopyBox& box : tile.tile.copies)
        for (const ProcessRank writer : tile.writers[box.target])
          if (writer != tile.readers[box.source]) cost.bytes_exchanged += packed_bytes(box, tensor);
    }
  }
  return cost;
}

std::int64_t run_exchanged(const Job& job, const ExchangeCost& cost, const planner::Selection& tensors) {
  const std::int64_t bound_bytes = std::min(job.memory_bytes, kRoundBytes);
  Arena arena(cost.peak_bytes[static_cast<std::size_t>(job.communicator.rank())]);
  planner::Rounds rounds(job.work, job.targets, job.communicator.size(), bound_bytes, tensors);
  // What fails on one process is kept while the exchange goes on with whatever bytes. Before any of those is written,
  // all know: an earlier run's bytes are trusted by the one that continues it.
  std::optional<Error> failure;
  const auto agree_so_far = [&] { exchange::agree(job.communicator, failure ? &*failure : nullptr); };
  while (const auto tiles = rounds.next()) {
    arena.reset();
    Round round(job, arena, *tiles);
    attempt(failure, [&] { check_interrupted(job); });
    attempt(failure, [&] { round.read(); });
    attempt(failure, [&] { round.pack(); });
    round.exchange();
    agree_so_far();
    attempt(failure, [&] { round.write(); });
  }
  agree_so_far();
  return arena.peak_bytes();
}

}  // namespace reshard::pipeline
