// The work of a group of NCCL: what the real one does in a kernel. Counts are compared before any message is sent,
// where the real one hangs or writes where it should not.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "support/simulated_gpu/faults.hpp"
#include "support/simulated_gpu/memory.hpp"
#include "support/simulated_gpu/nccl_world.hpp"

namespace simulated_gpu {
namespace {

constexpr const char* kName = "a kernel of NCCL";

std::vector<std::byte> read(const DeviceBytes& from) {
  const Access access(holder(MemoryKind::kDevice, from.begin, from.bytes, kName));
  return {from.begin, from.begin + from.bytes};
}

void write(const DeviceBytes& to, const std::vector<std::byte>& bytes) {
  const Access access(holder(MemoryKind::kDevice, to.begin, to.bytes, kName));
  std::copy(bytes.begin(), bytes.end(), to.begin);
}

std::int64_t size_for(const std::map<int, DeviceBytes>& messages, int peer) {
  const auto found = messages.find(peer);
  return found == messages.end() ? -1 : static_cast<std::int64_t>(found->second.bytes);
}

std::string count_text(std::int64_t bytes) {
  return bytes < 0 ? "nothing" : fmt::format("{} bytes", bytes);
}

void compare(int from, std::int64_t sent, int to, std::int64_t expected) {
  if (sent != expected)
    misuse(fmt::format("process {} sends {} to process {}, which expects {}", from, count_text(sent), to,
                       count_text(expected)));
}

class GroupWork {
 public:
  GroupWork(const ncclComm& comm, GroupMessages messages)
      : rank_(comm.rank), tag_(comm.tag), messages_(std::move(messages)) {
    for (const auto& [peer, bytes] : messages_.sends) peers_.insert(peer);
    for (const auto& [peer, bytes] : messages_.receives) peers_.insert(peer);
    peers_.erase(rank_);
  }

  bool advance() {
    if (stage_ == Stage::kNotBegun) begin();
    if (stage_ == Stage::kAnnouncing && all_done(announcements_) && all_done(announcing_)) post();
    if (stage_ != Stage::kMoving || !all_done(incoming_) || !all_done(outgoing_)) return false;
    for (const auto& [peer, letter] : incoming_) write(messages_.receives.at(peer), letter->bytes());
    return true;
  }

 private:
  enum class Stage { kNotBegun, kAnnouncing, kMoving };
  using Letters = std::map<int, std::unique_ptr<Letter>>;

  static bool all_done(const Letters& letters) {
    return std::all_of(letters.begin(), letters.end(), [](const auto& item) { return item.second->is_done(); });
  }

  void begin() {
    for (const auto& [peer, bytes] : messages_.sends) data_.emplace(peer, read(bytes));
    for (const auto& [peer, bytes] : messages_.receives) write(bytes, std::vector<std::byte>(bytes.bytes, kPoison));
    compare(rank_, size_for(messages_.sends, rank_), rank_, size_for(messages_.receives, rank_));
    if (const auto own = data_.find(rank_); own != data_.end()) write(messages_.receives.at(rank_), own->second);
    for (const int peer : peers_) {
      const Announcement mine{messages_.number, size_for(messages_.sends, peer), size_for(messages_.receives, peer)};
      announcing_.emplace(peer, send(peer, tag_ + kAnnouncementTag, bytes_of(mine)));
      announcements_.emplace(peer, receive(peer, tag_ + kAnnouncementTag, sizeof(Announcement)));
    }
    stage_ = Stage::kAnnouncing;
  }

  void post() {
    for (const auto& [peer, letter] : announcements_) {
      Announcement theirs;
      std::memcpy(&theirs, letter->bytes().data(), sizeof(theirs));
      if (theirs.group != messages_.number)
        misuse(fmt::format("group {} of process {} meets group {} of process {}", messages_.number, rank_, theirs.group,
                           peer));
      compare(rank_, size_for(messages_.sends, peer), peer, theirs.receives);
      compare(peer, theirs.sends, rank_, size_for(messages_.receives, peer));
    }
    for (const auto& [peer, bytes] : messages_.receives)
      if (peer != rank_) incoming_.emplace(peer, receive(peer, tag_ + kDataTag, bytes.bytes));
    for (auto& [peer, bytes] : data_)
      if (peer != rank_) outgoing_.emplace(peer, send(peer, tag_ + kDataTag, std::move(bytes)));
    stage_ = Stage::kMoving;
  }

  int rank_;
  int tag_;
  GroupMessages messages_;
  std::set<int> peers_;  ///< without this process
  Stage stage_ = Stage::kNotBegun;
  std::map<int, std::vector<std::byte>> data_;
  Letters announcing_;
  Letters announcements_;
  Letters outgoing_;
  Letters incoming_;
};

}  // namespace

Step group_step(const ncclComm& comm, GroupMessages messages) {
  const bool hangs = messages.hangs;
  auto work = std::make_shared<GroupWork>(comm, std::move(messages));
  // A communicator that is aborted ends its kernels.
  return {[work, hangs, aborted = comm.aborted] { return *aborted || (!hangs && work->advance()); }, {}, {}};
}

}  // namespace simulated_gpu
