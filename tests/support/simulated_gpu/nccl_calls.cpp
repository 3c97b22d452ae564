// The calls of NCCL.

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "support/simulated_gpu/faults.hpp"
#include "support/simulated_gpu/memory.hpp"
#include "support/simulated_gpu/nccl_world.hpp"

using namespace simulated_gpu;

namespace {

constexpr std::size_t kMessageBytes = std::size_t{1} << 30;

std::set<ncclComm_t>& live() {
  static std::set<ncclComm_t> all;
  return all;
}

std::size_t aborts = 0;

int group_depth = 0;
/// Of a call inside the open group: the group does not come about.
ncclResult_t group_error = ncclSuccess;

/// Refuses what is no communicator (any more), or is busy with what was asked of it before.
void check_usable(ncclComm_t comm, const char* name) {
  if (!live().contains(comm)) misuse(fmt::format("{}: the communicator is none, or was destroyed or aborted", name));
  if (comm->stage == ncclComm::Stage::kFinalised) misuse(fmt::format("{}: the communicator is finalised", name));
  if (comm->stage != ncclComm::Stage::kReady || comm->polls_left > 0)
    misuse(fmt::format("{}: the communicator is not through with the call before", name));
}

void introduce(ncclComm& comm) {
  const Introduction mine{comm.size, comm.device};
  for (int peer = 0; peer < comm.size; ++peer) {
    const bool other = peer != comm.rank;
    comm.introducing.push_back(other ? send(peer, comm.tag + kIntroductionTag, bytes_of(mine)) : nullptr);
    comm.introductions.push_back(other ? receive(peer, comm.tag + kIntroductionTag, sizeof(mine)) : nullptr);
  }
}

bool all_done(const std::vector<std::unique_ptr<Letter>>& letters) {
  return std::all_of(letters.begin(), letters.end(),
                     [](const std::unique_ptr<Letter>& letter) { return letter == nullptr || letter->is_done(); });
}

/// All have come: NCCL allows one process per device.
void meet(ncclComm& comm) {
  std::set<int> devices{comm.device};
  for (const std::unique_ptr<Letter>& letter : comm.introductions) {
    if (letter == nullptr) continue;
    Introduction theirs;
    std::memcpy(&theirs, letter->bytes().data(), sizeof(theirs));
    if (theirs.processes != comm.size) misuse("a communicator is made with different numbers of processes");
    if (!devices.insert(theirs.device).second) comm.error = ncclInvalidUsage;
  }
  comm.stage = ncclComm::Stage::kReady;
}

/// The progress that a thread of NCCL makes meanwhile.
void advance(ncclComm& comm) {
  if (comm.hangs) return;
  if (comm.polls_left > 0) {
    --comm.polls_left;
    return;
  }
  if (comm.stage == ncclComm::Stage::kIntroducing && all_done(comm.introducing) && all_done(comm.introductions))
    meet(comm);
  if (comm.stage == ncclComm::Stage::kGroupEnding) {
    unblock(comm.stream);
    enqueue(comm.stream, group_step(comm, std::exchange(comm.open, {})));
    comm.stage = ncclComm::Stage::kReady;
  }
}

ncclResult_t post(const char* name, const void* begin, std::size_t bytes, ncclDataType_t type, int peer,
                  ncclComm_t comm, cudaStream_t stream, bool sends) {
  if (call(name) == Fate::kFails) return group_error = ncclSystemError;
  check_usable(comm, name);
  check_stream(stream, name);
  if (group_depth == 0) misuse(fmt::format("{} outside of a group: it waits for the other side", name));
  if (type != ncclUint8) misuse(fmt::format("{} of another type than bytes", name));
  if (bytes == 0 || bytes > kMessageBytes) misuse(fmt::format("{} of {} bytes", name, bytes));
  if (peer < 0 || peer >= comm->size) misuse(fmt::format("{} with process {} of {}", name, peer, comm->size));
  if (holder(MemoryKind::kDevice, begin, bytes, name).device != comm->device)
    misuse(fmt::format("{} of memory of another device", name));
  GroupMessages& open = comm->open;
  if ((!open.sends.empty() || !open.receives.empty()) && comm->stream != stream) misuse("a group on two streams");
  comm->stream = stream;
  const DeviceBytes message{static_cast<std::byte*>(const_cast<void*>(begin)), bytes};
  if (!(sends ? open.sends : open.receives).emplace(peer, message).second)
    misuse(fmt::format("{}: two messages of a group with process {}", name, peer));
  return ncclSuccess;
}

}  // namespace

std::size_t simulated_gpu::live_communicators() {
  return live().size();
}

std::size_t simulated_gpu::aborted_communicators() {
  return aborts;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclInvalidUsage:
      return "simulated invalid usage";
    case ncclRemoteError:
      return "simulated remote error";
    default:
      return "simulated system error";
  }
}

const char* ncclGetLastError(ncclComm_t comm) {
  return comm != nullptr && comm->error == ncclInvalidUsage ? "Duplicate GPU detected" : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (call("ncclGetUniqueId") == Fate::kFails) return ncclSystemError;
  static int next = 0;
  // MPI's tags go up to 32767 at least; those of communicators long gone come again.
  const int tag = next++ % 4096 * kTags;
  *id = {};
  std::memcpy(id->internal, &tag, sizeof(tag));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int processes_wanted, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const Fate fate = call("ncclCommInitRankConfig");
  if (fate == Fate::kFails) return ncclSystemError;
  if (config == nullptr || config->blocking != 0) misuse("ncclCommInitRankConfig that blocks");
  if (processes_wanted > 1 && processes() != processes_wanted)
    misuse(fmt::format("a communicator of {} processes, of which {} are connected", processes_wanted, processes()));
  if (is_work_queued()) misuse("ncclCommInitRankConfig while work is queued");
  *comm = new ncclComm;
  live().insert(*comm);
  (*comm)->rank = rank;
  (*comm)->size = processes_wanted;
  (*comm)->device = current_device();
  std::memcpy(&(*comm)->tag, id.internal, sizeof((*comm)->tag));
  (*comm)->polls_left = 3;
  (*comm)->hangs = fate == Fate::kHangs;
  introduce(**comm);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!live().contains(comm)) misuse("ncclCommGetAsyncError: the communicator was destroyed or aborted");
  if (call("ncclCommGetAsyncError") == Fate::kFails) comm->error = ncclRemoteError;
  const bool busy = comm->stage == ncclComm::Stage::kIntroducing || comm->stage == ncclComm::Stage::kGroupEnding ||
                    comm->polls_left > 0;
  *error = comm->error != ncclSuccess ? comm->error : busy ? ncclInProgress : ncclSuccess;
  if (busy) advance(*comm);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (call("ncclGroupStart") == Fate::kFails) return ncclSystemError;
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const Fate fate = call("ncclGroupEnd");
  if (group_depth == 0) misuse("ncclGroupEnd without ncclGroupStart");
  if (--group_depth > 0) misuse("a group in a group");
  if (fate == Fate::kFails) group_error = ncclSystemError;
  for (const ncclComm_t comm : live()) {
    comm->open.number = ++comm->groups;
    comm->open.hangs = fate == Fate::kHangs;
    if (comm->open.sends.contains(comm->rank) != comm->open.receives.contains(comm->rank))
      group_error = ncclInvalidUsage;
  }
  ncclResult_t result = std::exchange(group_error, ncclSuccess);
  for (const ncclComm_t comm : live()) {
    if (comm->open.sends.empty() && comm->open.receives.empty()) continue;
    if (result != ncclSuccess && result != ncclInProgress) {
      comm->open = {};
      continue;
    }
    comm->stage = ncclComm::Stage::kGroupEnding;
    comm->polls_left = 2;
    block(comm->stream, "that a group of NCCL is still on its way to: ncclGroupEnd is in progress");
    result = ncclInProgress;
  }
  return result;
}

ncclResult_t ncclSend(const void* begin, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return post("ncclSend", begin, count, type, peer, comm, stream, true);
}

ncclResult_t ncclRecv(void* begin, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return post("ncclRecv", begin, count, type, peer, comm, stream, false);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  check_usable(comm, "ncclCommFinalize");
  if (is_work_queued()) misuse("ncclCommFinalize while work is queued");
  if (comm->size > 1 && is_waiting(comm->tag + kAnnouncementTag))
    misuse("ncclCommFinalize: another process has a group with messages for this one, which had none for it");
  comm->stage = ncclComm::Stage::kFinalised;
  comm->polls_left = 2;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!live().contains(comm) || comm->stage != ncclComm::Stage::kFinalised || comm->polls_left > 0)
    misuse("ncclCommDestroy of a communicator that is not finalised");
  live().erase(comm);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (live().erase(comm) == 0) misuse("ncclCommAbort: the communicator was destroyed or aborted");
  if (group_depth > 0) misuse("ncclCommAbort inside a group");
  if (comm->stage == ncclComm::Stage::kGroupEnding) unblock(comm->stream);
  *comm->aborted = true;
  ++aborts;
  delete comm;
  return ncclSuccess;
}
