#pragma once
// Communicators of the simulated NCCL.

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "support/simulated_gpu/mailbox.hpp"
#include "support/simulated_gpu/streams.hpp"

namespace simulated_gpu {

/// What every process tells every other one when a communicator is made.
struct Introduction {
  int processes = 0;
  int device = 0;  ///< of the machine
};

/// What a process tells another one before the messages of a group: -1 for none.
struct Announcement {
  std::int64_t group = 0;
  std::int64_t sends = -1;
  std::int64_t receives = -1;
};

struct DeviceBytes {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

/// The messages of one group, by peer.
struct GroupMessages {
  std::int64_t number = 0;
  std::map<int, DeviceBytes> sends;
  std::map<int, DeviceBytes> receives;
  bool hangs = false;
};

}  // namespace simulated_gpu

/// What ncclComm_t points to.
struct ncclComm {
  enum class Stage { kIntroducing, kReady, kGroupEnding, kFinalised };

  int rank = 0;
  int size = 1;
  int device = 0;
  int tag = 0;  ///< the first of its own
  Stage stage = Stage::kIntroducing;
  ncclResult_t error = ncclSuccess;
  bool hangs = false;
  int polls_left = 0;  ///< until what is asked for can be done: as if a thread of NCCL worked at it
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
  std::vector<std::unique_ptr<simulated_gpu::Letter>> introductions;  ///< by peer; null for this process
  std::vector<std::unique_ptr<simulated_gpu::Letter>> introducing;
  std::int64_t groups = 0;  ///< that this process has ended while the communicator lives
  simulated_gpu::GroupMessages open;
  cudaStream_t stream = nullptr;  ///< of the open group
};

namespace simulated_gpu {

/// A step of a stream that does the messages of a group.
Step group_step(const ncclComm& comm, GroupMessages messages);

/// Kinds of MPI messages of a communicator.
enum Tag { kIntroductionTag, kAnnouncementTag, kDataTag, kTags };

std::size_t live_communicators();
/// How many have been aborted.
std::size_t aborted_communicators();

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  return {begin, begin + sizeof(T)};
}

}  // namespace simulated_gpu
