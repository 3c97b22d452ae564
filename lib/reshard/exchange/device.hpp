#pragma once
// One GPU of this process, and the exchange of a round through it: bytes go up, are packed there, go to the other GPUs
// and come back down. The host sees pinned memory and offsets, nothing of CUDA.
//
// Two rounds are in flight at a time, each in a slot of its own: pinned host memory and device memory. A round's work
// is queued by `start` and runs beside what the host does; after `finish` its downloads are in the slot's host memory.
//
//   start(0, round) | host: reads for slot 1 | start(1, round) | finish(0) | host: writes from slot 0 | start(0, ...)

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshard/base/process_rank.hpp"
#include "reshard/exchange/communicator.hpp"
#include "reshard/exchange/copy_task.hpp"

namespace reshard::exchange {

/// Rounds in flight.
inline constexpr int kDeviceSlots = 2;
/// Every buffer in a slot begins at a multiple of this (NCCL and the copy engines are fastest there).
inline constexpr std::int64_t kDeviceAlignment = 256;

/// A contiguous copy between a slot's host memory and its device memory; bytes.
struct HostCopy {
  std::int64_t host_offset = 0;
  std::int64_t device_offset = 0;
  std::int64_t bytes = 0;
};

/// Bytes of a slot's device memory that go to, or come from, one process.
struct DeviceMessage {
  ProcessRank peer = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// What one process's GPU does in a round, in this order.
struct DeviceRound {
  std::vector<HostCopy> uploads;
  std::vector<CopyTask> pack;
  /// At most one per peer and direction, sizes agree on both ends; one to oneself has its counterpart.
  std::vector<DeviceMessage> sends;
  std::vector<DeviceMessage> receives;
  std::vector<CopyTask> unpack;
  std::vector<HostCopy> downloads;
};

/// Of each slot. Beside these, a slot has the tables of its tasks, on the host and on the device.
struct DeviceMemory {
  std::int64_t host_bytes = 0;
  std::int64_t device_bytes = 0;
  std::int64_t tasks = 0;  ///< of both launches of a round together
};

class Device {
 public:
  virtual ~Device() = default;
  /// The slot's pinned memory.
  virtual std::span<std::byte> host(int slot) = 0;
  /// Queues a round; the slot's last one is finished. Collective in the order of rounds. Errors as of `finish`.
  virtual void start(int slot, DeviceRound round) = 0;
  /// Waits until all processes have come to finish this round, however long that takes, and then for the slot's round.
  /// Collective, in the order of rounds. Errors: kDevice (CUDA), kTransport (NCCL, or no end within the device's
  /// patience), on this process alone: the caller ends the job.
  virtual void finish(int slot) = 0;
  /// Given to the library for other processes so far.
  virtual std::int64_t bytes_sent() const = 0;
};

/// What a build can do with GPUs.
class Gpus {
 public:
  virtual ~Gpus() = default;
  /// For --version: "13.0", "2.28.9".
  virtual std::string cuda_version() const = 0;
  virtual std::string nccl_version() const = 0;
  /// Whether every process gets a GPU of its own: nothing, or why not, the same on every process. Collective; cheap, no
  /// GPU is touched where there is none.
  virtual std::optional<std::string> refusal(Communicator& communicator) = 0;
  /// After `refusal` has found nothing. `patience`: how long initialisation, and a round that all have started, may
  /// take. Collective; errors, the same on all processes (AgreedError): kDevice, kTransport, kMemory (pinned or device
  /// memory). The communicator outlives the device, whose calls all come from the thread that opened it.
  virtual std::unique_ptr<Device> open(Communicator& communicator, DeviceMemory memory,
                                       std::chrono::milliseconds patience) = 0;
};

}  // namespace reshard::exchange
