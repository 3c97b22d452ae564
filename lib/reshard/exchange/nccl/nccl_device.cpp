#include "reshard/exchange/nccl/nccl_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <set>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/exchange/cuda/copy_kernels.hpp"
#include "reshard/exchange/cuda/cuda_error.hpp"

namespace reshard::exchange {
namespace {

/// As of the transport over MPI. NCCL counts in size_t and needs no limit; a larger message is a fault of the planner,
/// whose rounds are far below.
constexpr std::int64_t kMessageBytes = std::int64_t{1} << 30;

constexpr auto kTaskBytes = static_cast<std::int64_t>(sizeof(CopyTask));

void check_range(const char* what, std::int64_t offset, std::int64_t bytes, std::int64_t limit) {
  if (offset < 0 || bytes < 0 || bytes > limit - offset)
    internal_error(fmt::format("{} of {} bytes from {} on, in a slot's {} bytes", what, bytes, offset, limit));
}

/// Pieces of no bytes are left out; the other side does the same.
template <typename Piece>
void drop_empty(std::vector<Piece>& pieces) {
  std::erase_if(pieces, [](const Piece& piece) { return piece.bytes == 0; });
}

void copy_async(std::byte* to, const std::byte* from, std::int64_t bytes, cudaMemcpyKind kind,
                const cuda::Stream& stream) {
  cuda::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream.get()), "cudaMemcpyAsync");
}

}  // namespace

NcclDevice::Slot::Slot(DeviceMemory of)
    : host(of.host_bytes), memory(of.device_bytes), host_tasks(of.tasks * kTaskBytes), tasks(of.tasks * kTaskBytes) {}

NcclDevice::NcclDevice(Communicator& communicator, DeviceMemory memory, std::chrono::milliseconds patience)
    : communicator_(communicator),
      memory_(memory),
      exceptions_(std::uncaught_exceptions()),
      slots_{Slot(memory), Slot(memory)},
      first_bytes_(2 * communicator.size()),
      nccl_(communicator, patience) {
  static_assert(kDeviceSlots == 2);
}

NcclDevice::~NcclDevice() {
  const bool idle = std::none_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.in_flight; });
  if (connected_ && idle && std::uncaught_exceptions() == exceptions_) nccl_.finalise();
}

bool NcclDevice::connect(const std::string& id) {
  if (!nccl_.init(id)) return false;
  const std::int64_t processes = communicator_.size();
  std::vector<DeviceMessage> sends;
  std::vector<DeviceMessage> receives;
  for (ProcessRank peer = 0; peer < communicator_.size(); ++peer) {
    sends.push_back({peer, peer, 1});
    receives.push_back({peer, processes + peer, 1});
  }
  constexpr auto kGiveUp = NcclCommunicator::Alarm::kGiveUp;
  if (!nccl_.exchange(sends, receives, first_bytes_.data(), work_.get(), kGiveUp)) return false;
  work_.record(first_exchange_);
  connected_ = nccl_.wait(first_exchange_.get(), "the first exchange", kGiveUp);
  return connected_;
}

std::span<std::byte> NcclDevice::host(int index) {
  return {slot(index).host.data(), static_cast<std::size_t>(memory_.host_bytes)};
}

void NcclDevice::start(int index, DeviceRound round) {
  Slot& slot = this->slot(index);
  if (slot.in_flight) internal_error(fmt::format("slot {} is started before its last round is finished", index));
  drop_empty(round.uploads);
  drop_empty(round.sends);
  drop_empty(round.receives);
  drop_empty(round.downloads);
  check_round(round);
  slot.in_flight = true;

  const std::int64_t pack_tiles = number_tiles(round.pack);
  const std::int64_t unpack_tiles = number_tiles(round.unpack);
  const auto packs = static_cast<std::int64_t>(round.pack.size());
  const auto unpacks = static_cast<std::int64_t>(round.unpack.size());

  for (const HostCopy& copy : round.uploads)
    copy_async(slot.memory.data() + copy.device_offset, slot.host.data() + copy.host_offset, copy.bytes,
               cudaMemcpyHostToDevice, up_);
  if (packs + unpacks > 0) {
    std::byte* table = slot.host_tasks.data();
    if (packs > 0) std::memcpy(table, round.pack.data(), round.pack.size() * sizeof(CopyTask));
    if (unpacks > 0)
      std::memcpy(table + packs * kTaskBytes, round.unpack.data(), round.unpack.size() * sizeof(CopyTask));
    copy_async(slot.tasks.data(), table, (packs + unpacks) * kTaskBytes, cudaMemcpyHostToDevice, up_);
  }
  up_.record(slot.uploaded);

  work_.wait_for(slot.uploaded);
  launch(slot, 0, round.pack, pack_tiles);
  nccl_.exchange(round.sends, round.receives, slot.memory.data(), work_.get(), NcclCommunicator::Alarm::kIgnore);
  for (const DeviceMessage& message : round.sends)
    if (message.peer != communicator_.rank()) bytes_sent_ += message.bytes;
  launch(slot, packs, round.unpack, unpack_tiles);
  work_.record(slot.unpacked);

  down_.wait_for(slot.unpacked);
  for (const HostCopy& copy : round.downloads)
    copy_async(slot.host.data() + copy.host_offset, slot.memory.data() + copy.device_offset, copy.bytes,
               cudaMemcpyDeviceToHost, down_);
  down_.record(slot.downloaded);
}

void NcclDevice::finish(int index) {
  Slot& slot = this->slot(index);
  if (!slot.in_flight) internal_error(fmt::format("slot {} is finished without a round", index));
  // The patience is for a round that all have started: a process that reads slowly is no fault.
  communicator_.barrier();
  nccl_.wait(slot.downloaded.get(), "a round", NcclCommunicator::Alarm::kIgnore);
  slot.in_flight = false;
}

NcclDevice::Slot& NcclDevice::slot(int index) {
  if (index < 0 || index >= kDeviceSlots) internal_error(fmt::format("slot {} of {}", index, kDeviceSlots));
  return slots_[static_cast<std::size_t>(index)];
}

void NcclDevice::check_round(const DeviceRound& round) const {
  const auto tasks = static_cast<std::int64_t>(round.pack.size() + round.unpack.size());
  if (tasks > memory_.tasks) internal_error(fmt::format("{} copy tasks, a slot has room for {}", tasks, memory_.tasks));
  for (const auto* copies : {&round.uploads, &round.downloads}) {
    for (const HostCopy& copy : *copies) {
      check_range("a copy on the host", copy.host_offset, copy.bytes, memory_.host_bytes);
      check_range("a copy on the GPU", copy.device_offset, copy.bytes, memory_.device_bytes);
    }
  }
  for (const auto* messages : {&round.sends, &round.receives}) {
    // More than one per peer in a group can hang: NCCL cuts large groups at places that differ between processes.
    std::set<ProcessRank> peers;
    for (const DeviceMessage& message : *messages) {
      check_range("a message", message.offset, message.bytes, memory_.device_bytes);
      if (message.bytes > kMessageBytes) internal_error("a message beyond 1 GiB");
      if (message.peer < 0 || message.peer >= communicator_.size())
        internal_error(fmt::format("a message for process {} of {}", message.peer, communicator_.size()));
      if (!peers.insert(message.peer).second)
        internal_error(fmt::format("two messages of a round for process {}", message.peer));
    }
  }
}

void NcclDevice::launch(const Slot& slot, std::int64_t first_task, std::span<const CopyTask> tasks,
                        std::int64_t tiles) {
  if (tiles == 0) return;
  const auto* table = reinterpret_cast<const CopyTask*>(slot.tasks.data()) + first_task;
  cuda::check(
      cuda::launch_copies(table, static_cast<std::int64_t>(tasks.size()), tiles, slot.memory.data(), work_.get()),
      "launch of a copy kernel");
}

}  // namespace reshard::exchange
