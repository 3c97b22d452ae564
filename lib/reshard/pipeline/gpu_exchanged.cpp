#include "reshard/pipeline/gpu_exchanged.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "reshard/exchange/box.hpp"
#include "reshard/pipeline/attempt.hpp"
#include "reshard/pipeline/round_share.hpp"

namespace reshard::pipeline {
namespace {

using exchange::Conversion;
using exchange::Message;
using exchange::Side;
using planner::device_buffer_bytes;
using planner::WorkTensor;

static_assert(planner::kDeviceBufferAlignment == exchange::kDeviceAlignment);
static_assert(planner::kTaskDims == exchange::kCopyLevels + 1, "a box has its run and the levels around it");

/// How long a step that all have begun may take: a GPU does a round in less than a second.
constexpr std::chrono::minutes kPatience{2};

/// Bytes given out one after the other, each piece at the next multiple of the alignment.
class Places {
 public:
  explicit Places(std::int64_t bytes) : bytes_(bytes) {}

  std::int64_t take(std::int64_t bytes) {
    const std::int64_t out = used_;
    used_ += device_buffer_bytes(bytes);
    if (used_ > bytes_) internal_error("GPU memory is smaller than the plan says");
    return out;
  }
  std::int64_t used() const { return used_; }

 private:
  std::int64_t bytes_;
  std::int64_t used_ = 0;
};

/// This process's part of one round. Reads, padding elements and writes lie at the same places of a slot's host and
/// device memory, messages behind them on the device:
///
///   | reads | elements of padding | writes |   host
///   | reads | elements of padding | writes | messages out | messages in |   device
class GpuRound {
 public:
  GpuRound(const Job& job, std::span<std::byte> host, const planner::RoundMemory& memory,
           std::vector<planner::RoundTile> tiles)
      : job_(job), share_(job, std::move(tiles), {0, 1, job.communicator.size() == 1}) {
    Places places(memory.device_bytes);
    const auto on_host = [&](std::int64_t at, std::int64_t bytes) {
      return host.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(bytes));
    };
    for (ShareRead& read : share_.reads) {
      read_places_.push_back(places.take(read.bytes));
      read.buffer = on_host(read_places_.back(), read.bytes);
    }
    std::vector<std::vector<PadElement>> pads;
    for (const ShareWrite& write : share_.writes) {
      const WorkTensor& work = share_.work(write.tile);
      pads.emplace_back();
      for (const planner::PadBox& pad : share_.tile(write.tile).tile.pads) {
        const std::span<const std::byte> value = work.pad_value(pad.dim);
        if (pad.box.target != write.part || value.empty()) continue;
        const auto bytes = static_cast<std::int64_t>(value.size());
        const std::int64_t at = places.take(bytes);
        std::memcpy(on_host(at, bytes).data(), value.data(), value.size());
        pads.back().push_back({&pad.box, at});
      }
    }
    if (places.used() > 0) round_.uploads.push_back({0, 0, places.used()});
    const std::int64_t writes_begin = places.used();
    for (ShareWrite& write : share_.writes) {
      write_places_.push_back(places.take(write.bytes));
      write.buffer = on_host(write_places_.back(), write.bytes);
    }
    if (places.used() > writes_begin)
      round_.downloads.push_back({writes_begin, writes_begin, places.used() - writes_begin});
    add_messages(share_.send_bytes, places, send_places_, round_.sends);
    add_messages(share_.receive_bytes, places, receive_places_, round_.receives);
    add_pack();
    for (std::size_t w = 0; w < share_.writes.size(); ++w) add_unpack(share_.writes[w], write_places_[w], pads[w]);
  }

  void read() {
    share_.read();
    parallel_for(job_.threads, share_.read_copies.size(), [&](std::size_t i) {
      const auto [t, c] = share_.read_copies[i];
      if (share_.work(t).converts()) expect_converted(t, c);
    });
  }

  /// The registers of what is sent go ahead by MPI. Collective.
  void exchange_registers() {
    const std::size_t processes = share_.send_bytes.size();
    const auto me = static_cast<std::size_t>(job_.communicator.rank());
    std::vector<std::vector<std::uint64_t>> out(processes);
    for (const ShareSlot& slot : share_.sends) out[slot.peer].push_back(share_.reg(slot.tile, slot.copy));
    std::vector<std::vector<std::uint64_t>> in(processes);
    for (const ShareSlot& slot : share_.receives) in[slot.peer].push_back(0);
    in[me] = out[me];
    std::vector<Message> sends;
    std::vector<Message> receives;
    for (std::size_t step = 1; step < processes; ++step) {
      const std::size_t to = (me + step) % processes;
      const std::size_t from = (me + processes - step) % processes;
      if (!out[to].empty()) sends.push_back({static_cast<ProcessRank>(to), std::as_writable_bytes(std::span(out[to]))});
      if (!in[from].empty())
        receives.push_back({static_cast<ProcessRank>(from), std::as_writable_bytes(std::span(in[from]))});
    }
    job_.communicator.exchange(sends, receives);
    std::vector<std::size_t> next(processes, 0);
    for (const ShareSlot& slot : share_.receives) received_registers_.push_back(in[slot.peer][next[slot.peer]++]);
  }

  /// What the GPU does; once.
  exchange::DeviceRound take_device_round() { return std::move(round_); }

  /// After the GPU has done it.
  void write() const {
    parallel_for(job_.threads, share_.writes.size(), [&](std::size_t i) {
      const ShareWrite& write = share_.writes[i];
      std::uint64_t read_register = 0;
      for (const std::size_t c : write.local) read_register ^= share_.reg(write.tile, c);
      for (const std::size_t number : write.received) read_register ^= received_registers_[number];
      share_.write(write, read_register);
    });
  }

  std::int64_t bytes_sent() const { return share_.bytes_sent(); }

 private:
  struct PadElement {
    const layout::CopyBox* box = nullptr;
    std::int64_t place = 0;
  };

  static void add_messages(const std::vector<std::int64_t>& bytes, Places& places, std::vector<std::int64_t>& begins,
                           std::vector<exchange::DeviceMessage>& messages) {
    for (std::size_t peer = 0; peer < bytes.size(); ++peer) {
      begins.push_back(places.take(bytes[peer]));
      if (bytes[peer] > 0) messages.push_back({static_cast<ProcessRank>(peer), begins.back(), bytes[peer]});
    }
  }

  /// What the GPU will convert is digested here as it has to come out. Between that and the digest of what was read the
  /// buffer was the host's alone: it is looked at again.
  void expect_converted(std::size_t t, std::size_t c) {
    const layout::CopyBox& box = share_.box(t, c);
    const planner::Index elements = share_.work(t).tiling->tensor_elements();
    const std::size_t tensor = share_.tile(t).id.tensor;
    const std::uint64_t as_read = share_.reg(t, c);
    share_.reg(t, c) = exchange::converted_register(box, Side::kSource, share_.bound(t).source_dtype,
                                                    share_.bound(t).target_dtype, share_.source_of(t, box), elements);
    check_before_conversion(job_, tensor, as_read,
                            exchange::box_register(box, Side::kSource, share_.work(t).source_element_bytes,
                                                   share_.source_of(t, box), elements));
    if (box.canonical) job_.ledger.add_source_tensor(tensor, as_read);
  }

  std::optional<Conversion> conversion(std::size_t t) const {
    if (!share_.work(t).converts()) return std::nullopt;
    return Conversion{share_.bound(t).source_dtype, share_.bound(t).target_dtype};
  }

  void add_pack() {
    for (const ShareSlot& slot : share_.sends) {
      const layout::CopyBox& box = share_.box(slot.tile, slot.copy);
      exchange::add_pack(round_.pack, box, share_.work(slot.tile).source_element_bytes, conversion(slot.tile),
                         read_places_[share_.read_of(slot.tile, box)], send_places_[slot.peer] + slot.offset);
    }
    for (std::size_t w = 0; w < share_.writes.size(); ++w) {
      const ShareWrite& write = share_.writes[w];
      if (share_.tile(write.tile).tile.targets[write.part].has_padding)
        exchange::add_zeros(round_.pack, write_places_[w], write.bytes);
    }
  }

  void add_unpack(const ShareWrite& write, std::int64_t place, const std::vector<PadElement>& pads) {
    const WorkTensor& work = share_.work(write.tile);
    for (const PadElement& pad : pads)
      exchange::add_move(round_.unpack, *pad.box, work.target_element_bytes, std::nullopt, pad.place, place);
    for (const std::size_t c : write.local) {
      const layout::CopyBox& box = share_.box(write.tile, c);
      exchange::add_move(round_.unpack, box, work.source_element_bytes, conversion(write.tile),
                         read_places_[share_.read_of(write.tile, box)], place);
    }
    for (const std::size_t number : write.received) {
      const ShareSlot& slot = share_.receives[number];
      exchange::add_unpack(round_.unpack, share_.box(slot.tile, slot.copy), work.target_element_bytes,
                           receive_places_[slot.peer] + slot.offset, place);
    }
  }

  const Job& job_;
  RoundShare share_;
  exchange::DeviceRound round_;
  std::vector<std::int64_t> read_places_;
  std::vector<std::int64_t> write_places_;
  std::vector<std::int64_t> send_places_;     // by process
  std::vector<std::int64_t> receive_places_;  // by process
  std::vector<std::uint64_t> received_registers_;
};

}  // namespace

planner::RoundBound gpu_round_bound(std::int64_t memory_bytes, std::int64_t device_memory_bytes) {
  return {std::min(memory_bytes, kRoundBytes * exchange::kDeviceSlots), device_memory_bytes, exchange::kDeviceSlots};
}

std::unique_ptr<exchange::Device> open_gpu(exchange::Gpus& gpus, exchange::Communicator& communicator,
                                           const ExchangeCost& cost) {
  const planner::RoundMemory& peak = cost.peak[static_cast<std::size_t>(communicator.rank())];
  return gpus.open(communicator, {peak.host_bytes, peak.device_bytes, peak.tasks}, kPatience);
}

std::int64_t run_gpu_exchanged(const Job& job, const ExchangeCost& cost, const planner::Selection& tensors,
                               exchange::Device& device) {
  const planner::RoundMemory& peak = cost.peak[static_cast<std::size_t>(job.communicator.rank())];
  planner::Rounds rounds(job.work, job.targets, job.communicator.size(), cost.bound, tensors);
  std::array<std::optional<GpuRound>, exchange::kDeviceSlots> slots;
  std::int64_t bytes_sent = 0;
  std::optional<Error> failure;
  // As in an exchange from host memory: before anything is written, all know of what has failed.
  const auto finish = [&](int slot) {
    std::optional<GpuRound>& round = slots[static_cast<std::size_t>(slot)];
    if (!round) return;
    {
      const StageTimer timer(job.ledger, Stage::kExchange, round->bytes_sent());
      device.finish(slot);
    }
    exchange::agree(job.communicator, failure ? &*failure : nullptr);
    attempt(failure, [&] { round->write(); });
    round.reset();
  };
  int slot = 0;
  while (auto tiles = rounds.next()) {
    std::optional<GpuRound>& round = slots[static_cast<std::size_t>(slot)];
    round.emplace(job, device.host(slot), peak, std::move(*tiles));
    attempt(failure, [&] { check_interrupted(job); });
    attempt(failure, [&] { round->read(); });
    round->exchange_registers();
    bytes_sent += round->bytes_sent();
    device.start(slot, round->take_device_round());
    slot = (slot + 1) % exchange::kDeviceSlots;
    finish(slot);
  }
  finish((slot + exchange::kDeviceSlots - 1) % exchange::kDeviceSlots);
  exchange::agree(job.communicator, failure ? &*failure : nullptr);
  if (device.bytes_sent() != bytes_sent)
    internal_error(
        fmt::format("{} bytes were given to NCCL where {} leave this process", device.bytes_sent(), bytes_sent));
  return peak.host_bytes * exchange::kDeviceSlots;
}

}  // namespace reshard::pipeline
