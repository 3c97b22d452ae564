#pragma once
// A Device on CUDA and NCCL. Three streams: up, work (pack, exchange, unpack) and down, so that the copies of one round
// run beside the kernels of the other. Nothing is allocated after the constructor: an allocation waits for kernels of
// NCCL, which wait for other processes.
//
// All calls come from the thread that made it: CUDA's current device belongs to a thread.

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "reshard/exchange/communicator.hpp"
#include "reshard/exchange/cuda/memory.hpp"
#include "reshard/exchange/cuda/stream.hpp"
#include "reshard/exchange/device.hpp"
#include "reshard/exchange/nccl/nccl_communicator.hpp"

namespace reshard::exchange {

class NcclDevice : public Device {
 public:
  /// On the current device.
  NcclDevice(Communicator& communicator, DeviceMemory memory, std::chrono::milliseconds patience);
  /// Ends the exchange cleanly where no round is in flight and no exception is; aborts it otherwise.
  ~NcclDevice() override;
  NcclDevice(const NcclDevice&) = delete;
  NcclDevice& operator=(const NcclDevice&) = delete;

  /// Makes the communicator and, with a first byte to each other process, its connections: NCCL sets these up at first
  /// use, together with the other side, and rounds should not wait for that. False where an alarm of another process
  /// has ended it. Collective.
  bool connect(const std::string& id);

  std::span<std::byte> host(int slot) override;
  void start(int slot, DeviceRound round) override;
  void finish(int slot) override;
  std::int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  struct Slot {
    explicit Slot(DeviceMemory memory);
    cuda::PinnedBlock host;
    cuda::DeviceBlock memory;
    cuda::PinnedBlock host_tasks;
    cuda::DeviceBlock tasks;
    cuda::Event uploaded;
    cuda::Event unpacked;
    cuda::Event downloaded;
    bool in_flight = false;  ///< stays so after an error
  };

  Slot& slot(int index);
  void check_round(const DeviceRound& round) const;
  void launch(const Slot& slot, std::int64_t first_task, std::span<const CopyTask> tasks, std::int64_t tiles);

  Communicator& communicator_;
  DeviceMemory memory_;
  int exceptions_;  ///< in flight when this was made
  bool connected_ = false;
  std::int64_t bytes_sent_ = 0;
  cuda::Stream up_;
  cuda::Stream work_;
  cuda::Stream down_;
  std::array<Slot, kDeviceSlots> slots_;
  cuda::DeviceBlock first_bytes_;  ///< of `connect`: one from and one to each process
  cuda::Event first_exchange_;
  NcclCommunicator nccl_;  ///< last: ends first, and with it all kernels that the memory could wait for
};

}  // namespace reshard::exchange
