#include "reshard/exchange/nccl/nccl_communicator.hpp"

#include <fmt/format.h>

#include <cstring>
#include <thread>

#include "reshard/base/error.hpp"
#include "reshard/exchange/cuda/cuda_error.hpp"

namespace reshard::exchange {
namespace {

/// Short beside a round of 64 MiB, which takes milliseconds.
constexpr std::chrono::microseconds kPollInterval{50};

std::string failure_text(ncclResult_t result, const char* call, ncclComm_t comm) {
  const std::string last = ncclGetLastError(comm);
  return fmt::format("{} failed: {}{}", call, ncclGetErrorString(result), last.empty() ? "" : ": " + last);
}

}  // namespace

std::string new_id(Communicator& communicator) {
  ncclUniqueId id{};
  agreed(communicator, [&] {
    if (communicator.rank() != 0) return;
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess)
      throw Error(Issue{ErrorCode::kTransport, "", kNoTensor, failure_text(result, "ncclGetUniqueId", nullptr)});
  });
  return communicator.broadcast(std::string(id.internal, sizeof(id.internal)));
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ != nullptr) ncclCommAbort(comm_);
}

bool NcclCommunicator::init(const std::string& id) {
  ncclUniqueId unique{};
  if (id.size() != sizeof(unique.internal)) internal_error("an NCCL identity of another length");
  std::memcpy(unique.internal, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  constexpr const char* call = "ncclCommInitRankConfig";
  check(ncclCommInitRankConfig(&comm_, communicator_.size(), unique, communicator_.rank(), &config), call);
  return settle(call, Alarm::kGiveUp);
}

bool NcclCommunicator::exchange(std::span<const DeviceMessage> sends, std::span<const DeviceMessage> receives,
                                std::byte* memory, cudaStream_t stream, Alarm alarm) {
  check(ncclGroupStart(), "ncclGroupStart");
  // The group is closed whatever happens inside: an open one would keep ncclCommAbort from its work.
  ncclResult_t posted = ncclSuccess;
  const auto failed = [&] { return posted != ncclSuccess && posted != ncclInProgress; };
  for (const DeviceMessage& message : sends)
    if (!failed())
      posted = ncclSend(memory + message.offset, static_cast<std::size_t>(message.bytes), ncclUint8, message.peer,
                        comm_, stream);
  for (const DeviceMessage& message : receives)
    if (!failed())
      posted = ncclRecv(memory + message.offset, static_cast<std::size_t>(message.bytes), ncclUint8, message.peer,
                        comm_, stream);
  const ncclResult_t ended = ncclGroupEnd();
  check(posted, "ncclSend, ncclRecv");
  check(ended, "ncclGroupEnd");
  // Until NCCL is through, the group may not be in the stream yet.
  return settle("ncclGroupEnd", alarm);
}

bool NcclCommunicator::wait(cudaEvent_t event, const char* what, Alarm alarm) {
  return poll(
      [&] {
        const cudaError_t result = cudaEventQuery(event);
        if (result == cudaSuccess) return true;
        if (result != cudaErrorNotReady) cuda::check(result, "cudaEventQuery");
        state(what);
        return false;
      },
      what, alarm);
}

void NcclCommunicator::finalise() noexcept {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  ncclResult_t result = ncclCommFinalize(comm_);
  while (result == ncclSuccess || result == ncclInProgress) {
    if (ncclCommGetAsyncError(comm_, &result) != ncclSuccess) return;
    if (result == ncclSuccess) {
      ncclCommDestroy(comm_);
      comm_ = nullptr;
      return;
    }
    if (std::chrono::steady_clock::now() > deadline) return;
    std::this_thread::sleep_for(kPollInterval);
  }
}

template <typename Done>
bool NcclCommunicator::poll(const Done& done, const char* what, Alarm alarm) {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  while (!done()) {
    if (communicator_.alarm_raised() && alarm == Alarm::kGiveUp) return false;
    if (std::chrono::steady_clock::now() > deadline)
      throw Error(Issue{ErrorCode::kTransport, "", kNoTensor,
                        fmt::format("NCCL: {} has not ended within {} s: a process has stopped, or its GPU or network "
                                    "does not answer (NCCL_DEBUG=INFO tells more)",
                                    what, static_cast<double>(patience_.count()) / 1000)});
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

bool NcclCommunicator::settle(const char* call, Alarm alarm) {
  return poll([&] { return state(call) == ncclSuccess; }, call, alarm);
}

void NcclCommunicator::check(ncclResult_t result, const char* call) const {
  if (result != ncclSuccess && result != ncclInProgress)
    throw Error(Issue{ErrorCode::kTransport, "", kNoTensor, failure_text(result, call, comm_)});
}

ncclResult_t NcclCommunicator::state(const char* call) const {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
  check(state, call);
  return state;
}

}  // namespace reshard::exchange
