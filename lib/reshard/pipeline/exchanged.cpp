#include "reshard/pipeline/exchanged.hpp"

#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "reshard/exchange/box.hpp"
#include "reshard/pipeline/arena.hpp"
#include "reshard/pipeline/attempt.hpp"
#include "reshard/pipeline/round_share.hpp"

namespace reshard::pipeline {
namespace {

using exchange::Message;
using exchange::Side;
using planner::WorkTensor;

/// In a message a box is its elements, then its register from the read side, at the next multiple of 64 bytes.
constexpr MessageForm kForm{planner::kRegisterBytes, planner::kBufferAlignment, false};

/// This process's part of one round, in host memory.
class Round {
 public:
  Round(const Job& job, Arena& arena, std::vector<planner::RoundTile> tiles)
      : job_(job), share_(job, std::move(tiles), kForm) {
    for (ShareRead& read : share_.reads) read.buffer = arena.take(read.bytes);
    for (ShareWrite& write : share_.writes) write.buffer = arena.take(write.bytes);
    for (const auto& [t, c] : share_.read_copies) {
      const WorkTensor& work = share_.work(t);
      if (!work.converts()) continue;
      converted_numbers_[{t, c}] = converted_.size();
      const std::int64_t source_bytes = share_.box(t, c).elements() * work.source_element_bytes;
      converted_.push_back({t, c, arena.take(source_bytes), arena.take(share_.packed_bytes(t, c))});
    }
    const auto take = [&](const std::vector<std::int64_t>& bytes) {
      std::vector<std::span<std::byte>> out;
      for (const std::int64_t of_process : bytes)
        out.push_back(of_process > 0 ? arena.take(of_process) : std::span<std::byte>());
      return out;
    };
    send_buffers_ = take(share_.send_bytes);
    receive_buffers_ = take(share_.receive_bytes);
  }

  void read() { share_.read(); }

  void pack() {
    const StageTimer timer(job_.ledger, Stage::kPack, 0);
    parallel_for(job_.threads, converted_.size(), [&](std::size_t i) { convert(converted_[i]); });
    parallel_for(job_.threads, share_.sends.size(), [&](std::size_t i) {
      const ShareSlot& slot = share_.sends[i];
      const WorkTensor& work = share_.work(slot.tile);
      const layout::CopyBox& box = share_.box(slot.tile, slot.copy);
      const std::span<std::byte> out = in_message(send_buffers_, slot);
      const std::span<std::byte> packed = out.first(out.size() - planner::kRegisterBytes);
      if (work.converts()) {
        const std::span<const std::byte> from = converted_of(slot.tile, slot.copy);
        std::memcpy(packed.data(), from.data(), from.size());
      } else {
        exchange::pack_box(box, Side::kSource, work.source_element_bytes, share_.source_of(slot.tile, box), packed);
      }
      std::memcpy(packed.data() + packed.size(), &share_.reg(slot.tile, slot.copy), planner::kRegisterBytes);
      if (job_.hooks != nullptr) job_.hooks->on_buffer(BufferStage::kPacked, share_.name(slot.tile), out);
    });
  }

  void exchange() {
    std::vector<Message> sends;
    std::vector<Message> receives;
    // From the next process on round the ring, so that not everyone begins with process 0.
    const std::size_t processes = send_buffers_.size();
    const auto me = static_cast<std::size_t>(job_.communicator.rank());
    for (std::size_t step = 1; step < processes; ++step) {
      const std::size_t to = (me + step) % processes;
      const std::size_t from = (me + processes - step) % processes;
      if (!send_buffers_[to].empty()) sends.push_back({static_cast<ProcessRank>(to), send_buffers_[to]});
      if (!receive_buffers_[from].empty()) receives.push_back({static_cast<ProcessRank>(from), receive_buffers_[from]});
    }
    const StageTimer timer(job_.ledger, Stage::kExchange, share_.bytes_sent());
    job_.communicator.exchange(sends, receives);
  }

  void write() {
    if (job_.hooks != nullptr)
      for (const ShareSlot& slot : share_.receives)
        job_.hooks->on_buffer(BufferStage::kReceived, share_.name(slot.tile), in_message(receive_buffers_, slot));
    parallel_for(job_.threads, share_.writes.size(), [&](std::size_t i) {
      const ShareWrite& write = share_.writes[i];
      share_.write(write, unpack(write));
    });
  }

 private:
  struct Converted {
    std::size_t tile = 0;
    std::size_t copy = 0;
    std::span<std::byte> packed;
    std::span<std::byte> converted;
  };

  void convert(const Converted& item) {
    const WorkTensor& work = share_.work(item.tile);
    const layout::CopyBox& box = share_.box(item.tile, item.copy);
    const std::size_t tensor = share_.tile(item.tile).id.tensor;
    const std::uint64_t as_read = share_.reg(item.tile, item.copy);
    exchange::pack_box(box, Side::kSource, work.source_element_bytes, share_.source_of(item.tile, box), item.packed);
    share_.reg(item.tile, item.copy) = convert_packed(job_, box, tensor, as_read, item.packed, item.converted);
    if (box.canonical) job_.ledger.add_source_tensor(tensor, as_read);
  }

  /// Fills the buffer of a write; returns the XOR of the registers that came with its boxes.
  std::uint64_t unpack(const ShareWrite& write) const {
    const StageTimer timer(job_.ledger, Stage::kUnpack, write.bytes);
    const WorkTensor& work = share_.work(write.tile);
    const planner::Tile& tile = share_.tile(write.tile).tile;
    if (tile.targets[write.part].has_padding) {
      std::memset(write.buffer.data(), 0, write.buffer.size());
      fill_padding(tile, write.part, work, write.buffer);
    }
    std::uint64_t read_register = 0;
    for (const std::size_t c : write.local) {
      const layout::CopyBox& box = share_.box(write.tile, c);
      read_register ^= share_.reg(write.tile, c);
      if (work.converts()) {
        exchange::unpack_box(box, Side::kTarget, work.target_element_bytes, converted_of(write.tile, c), write.buffer);
      } else {
        exchange::move_box(box, work.source_element_bytes, share_.source_of(write.tile, box), write.buffer);
      }
    }
    for (const std::size_t number : write.received) {
      const ShareSlot& slot = share_.receives[number];
      const std::span<std::byte> bytes = in_message(receive_buffers_, slot);
      const std::span<std::byte> packed = bytes.first(bytes.size() - planner::kRegisterBytes);
      std::uint64_t as_read = 0;
      std::memcpy(&as_read, packed.data() + packed.size(), planner::kRegisterBytes);
      read_register ^= as_read;
      exchange::unpack_box(share_.box(slot.tile, slot.copy), Side::kTarget, work.target_element_bytes, packed,
                           write.buffer);
    }
    return read_register;
  }

  std::span<const std::byte> converted_of(std::size_t t, std::size_t c) const {
    return converted_[converted_numbers_.at({t, c})].converted;
  }
  /// A box with its register.
  std::span<std::byte> in_message(const std::vector<std::span<std::byte>>& buffers, const ShareSlot& slot) const {
    const std::int64_t bytes = share_.packed_bytes(slot.tile, slot.copy) + planner::kRegisterBytes;
    return buffers[slot.peer].subspan(static_cast<std::size_t>(slot.offset), static_cast<std::size_t>(bytes));
  }

  const Job& job_;
  RoundShare share_;
  std::vector<Converted> converted_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> converted_numbers_;  // by tile and copy
  std::vector<std::span<std::byte>> send_buffers_;                                // by process
  std::vector<std::span<std::byte>> receive_buffers_;
};

}  // namespace

ExchangeCost exchange_cost(const std::vector<WorkTensor>& work, const planner::TargetMap& targets, int processes,
                           planner::RoundBound bound, const planner::Selection& tensors) {
  ExchangeCost cost;
  cost.bound = bound;
  cost.bytes_read.assign(static_cast<std::size_t>(processes), 0);
  cost.peak.assign(static_cast<std::size_t>(processes), {});
  cost.held = RoundHistory(static_cast<std::size_t>(processes));
  planner::Rounds rounds(work, targets, processes, bound, tensors);
  while (const auto round = rounds.next()) {
    ++cost.rounds;
    std::vector<std::int64_t> host_bytes;
    for (std::size_t p = 0; p < cost.peak.size(); ++p) {
      const planner::RoundMemory& held = rounds.held()[p];
      host_bytes.push_back(held.host_bytes * bound.in_flight);
      planner::RoundMemory& peak = cost.peak[p];
      peak.host_bytes = std::max(peak.host_bytes, held.host_bytes);
      peak.device_bytes = std::max(peak.device_bytes, held.device_bytes);
      peak.tasks = std::max(peak.tasks, held.tasks);
    }
    cost.held.add(host_bytes);
    for (const planner::RoundTile& tile : *round) {
      const WorkTensor& tensor = work[tile.id.tensor];
      for (std::size_t s = 0; s < tile.readers.size(); ++s)
        cost.bytes_read[static_cast<std::size_t>(tile.readers[s])] +=
            read_bytes(tile.tile.sources[s], tensor.source_element_bytes);
      for (const layout::CopyBox& box : tile.tile.copies)
        for (const ProcessRank writer : tile.writers[box.target])
          if (writer != tile.readers[box.source]) cost.bytes_exchanged += box.elements() * tensor.target_element_bytes;
    }
  }
  return cost;
}

std::int64_t run_exchanged(const Job& job, const ExchangeCost& cost, const planner::Selection& tensors) {
  Arena arena(cost.peak[static_cast<std::size_t>(job.communicator.rank())].host_bytes);
  planner::Rounds rounds(job.work, job.targets, job.communicator.size(), cost.bound, tensors);
  // What fails on one process is kept while the exchange goes on with whatever bytes. Before any of those is written,
  // all know: an earlier run's bytes are trusted by the one that continues it.
  std::optional<Error> failure;
  const auto agree_so_far = [&] { exchange::agree(job.communicator, failure ? &*failure : nullptr); };
  while (auto tiles = rounds.next()) {
    arena.reset();
    Round round(job, arena, std::move(*tiles));
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
