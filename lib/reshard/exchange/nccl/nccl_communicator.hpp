#pragma once
// One NCCL communicator over the processes of a run, each on its current device. It never blocks inside NCCL: what is
// asked for is watched by polling, for at most the patience given, with calls into the Communicator in between so that
// MPI gets on too. Unless `finalise` has ended it, it is aborted: that also ends kernels of NCCL that still run.
//
// Errors: kTransport with NCCL's own text, or where nothing has come of it within the patience.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "reshard/exchange/communicator.hpp"
#include "reshard/exchange/device.hpp"

namespace reshard::exchange {

class NcclCommunicator {
 public:
  /// What an alarm of another process means while one waits. Between rounds the process that raised it goes on with
  /// the exchange; where a communicator is being made it does not.
  enum class Alarm { kIgnore, kGiveUp };

  NcclCommunicator(Communicator& communicator, std::chrono::milliseconds patience)
      : communicator_(communicator), patience_(patience) {}
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// `id`: what new_id has given to all processes. False where an alarm of another process has ended the wait.
  /// Collective.
  bool init(const std::string& id);
  /// Queues one group: at most one message per peer and direction. Memory is that of the device.
  bool exchange(std::span<const DeviceMessage> sends, std::span<const DeviceMessage> receives, std::byte* memory,
                cudaStream_t stream, Alarm alarm);
  /// Waits until `event` has happened. `what`: for the message.
  bool wait(cudaEvent_t event, const char* what, Alarm alarm);
  /// The end of a communicator that nothing is queued on. Whatever fails here, the bytes have been exchanged.
  void finalise() noexcept;

 private:
  template <typename Done>
  bool poll(const Done& done, const char* what, Alarm alarm);
  /// Waits until NCCL is through with the call.
  bool settle(const char* call, Alarm alarm);
  /// ncclInProgress is no error.
  void check(ncclResult_t result, const char* call) const;
  /// What NCCL says of the communicator by now; throws where that is an error.
  ncclResult_t state(const char* call) const;

  Communicator& communicator_;
  std::chrono::milliseconds patience_;
  ncclComm_t comm_ = nullptr;
};

/// An identity for a new communicator, from process 0. Collective.
std::string new_id(Communicator& communicator);

}  // namespace reshard::exchange
