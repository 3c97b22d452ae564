#include "reshard/exchange/mpi/mpi_communicator.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

namespace reshard::exchange {
namespace {

constexpr int kAlarmTag = 1;
constexpr int kDataTag = 2;
constexpr std::size_t kMessageBytes = std::size_t{1} << 30;
/// Elements of one reduction call: counts are int.
constexpr std::size_t kReduceCount = std::size_t{1} << 24;

void check(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  throw Error(
      Issue{ErrorCode::kTransport, "", kNoTensor,
            fmt::format("{} failed: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length)))});
}

int to_int(std::size_t n) {
  if (n > static_cast<std::size_t>(std::numeric_limits<int>::max())) internal_error("an MPI count beyond int");
  return static_cast<int>(n);
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator() {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    alarms_sent_.assign(static_cast<std::size_t>(size_), 0);
  }
  ~MpiCommunicator() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0) MPI_Comm_free(&comm_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  ProcessRank rank() const override { return rank_; }
  int size() const override { return size_; }

  void barrier() override { check(MPI_Barrier(comm_), "MPI_Barrier"); }

  std::string broadcast(std::string bytes) override {
    std::int64_t size = static_cast<std::int64_t>(bytes.size());
    check(MPI_Bcast(&size, 1, MPI_INT64_T, 0, comm_), "MPI_Bcast");
    bytes.resize(static_cast<std::size_t>(size));
    for (std::size_t at = 0; at < bytes.size(); at += kMessageBytes)
      check(MPI_Bcast(bytes.data() + at, to_int(std::min(kMessageBytes, bytes.size() - at)), MPI_BYTE, 0, comm_),
            "MPI_Bcast");
    return bytes;
  }

  int nodes() override {
    MPI_Comm node = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
    int rank_in_node = 0;
    check(MPI_Comm_rank(node, &rank_in_node), "MPI_Comm_rank");
    check(MPI_Comm_free(&node), "MPI_Comm_free");
    std::int64_t nodes = rank_in_node == 0 ? 1 : 0;
    all_sum(std::span(&nodes, 1));
    return static_cast<int>(nodes);
  }

  std::vector<std::string> all_gather(std::string_view bytes) override {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(size_));
    const auto mine = static_cast<std::int64_t>(bytes.size());
    check(MPI_Allgather(&mine, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, comm_), "MPI_Allgather");
    std::vector<std::string> out(sizes.size());
    // One broadcast per process: sizes differ widely and most are empty.
    for (std::size_t p = 0; p < out.size(); ++p) {
      out[p].resize(static_cast<std::size_t>(sizes[p]));
      if (static_cast<int>(p) == rank_) out[p] = std::string(bytes);
      for (std::size_t at = 0; at < out[p].size(); at += kMessageBytes)
        check(MPI_Bcast(out[p].data() + at, to_int(std::min(kMessageBytes, out[p].size() - at)), MPI_BYTE,
                        static_cast<int>(p), comm_),
              "MPI_Bcast");
    }
    return out;
  }

  void all_xor(std::span<std::uint64_t> values) override { reduce(values, MPI_UINT64_T, MPI_BXOR); }
  void all_sum(std::span<std::int64_t> values) override { reduce(values, MPI_INT64_T, MPI_SUM); }

  void exchange(std::span<const Message> sends, std::span<const Message> receives) override {
    std::vector<MPI_Request> requests;
    requests.reserve(sends.size() + receives.size());
    const auto post = [&](const Message& message, bool send) {
      if (message.bytes.size() > kMessageBytes) internal_error("a message beyond 1 GiB");
      requests.emplace_back();
      const int count = to_int(message.bytes.size());
      if (send) {
        check(MPI_Isend(message.bytes.data(), count, MPI_BYTE, message.peer, kDataTag, comm_, &requests.back()),
              "MPI_Isend");
      } else {
        check(MPI_Irecv(message.bytes.data(), count, MPI_BYTE, message.peer, kDataTag, comm_, &requests.back()),
              "MPI_Irecv");
      }
    };
    for (const Message& message : receives) post(message, false);
    for (const Message& message : sends) post(message, true);
    check(MPI_Waitall(to_int(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }

  void raise_alarm() override {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(nullptr, 0, MPI_BYTE, peer, kAlarmTag, comm_, &request), "MPI_Isend");
      alarms_.push_back(request);
      ++alarms_sent_[static_cast<std::size_t>(peer)];
    }
    alarm_ = true;
  }

  bool alarm_raised() override {
    if (alarm_) return true;
    int there = 0;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kAlarmTag, comm_, &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
    alarm_ = there != 0;
    return alarm_;
  }

  void clear_alarms() override {
    // Everyone learns how many alarms are on their way to it, and takes them in.
    std::vector<std::int64_t> coming = alarms_sent_;
    all_sum(coming);
    for (std::int64_t i = 0; i < coming[static_cast<std::size_t>(rank_)]; ++i)
      check(MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kAlarmTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
    check(MPI_Waitall(to_int(alarms_.size()), alarms_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    alarms_.clear();
    std::fill(alarms_sent_.begin(), alarms_sent_.end(), 0);
    alarm_ = false;
  }

  [[noreturn]] void abort(Exit exit) override {
    MPI_Abort(comm_, static_cast<int>(exit));
    std::_Exit(static_cast<int>(exit));
  }

 private:
  template <typename T>
  void reduce(std::span<T> values, MPI_Datatype type, MPI_Op operation) {
    for (std::size_t at = 0; at < values.size(); at += kReduceCount) {
      const std::size_t count = std::min(kReduceCount, values.size() - at);
      check(MPI_Allreduce(MPI_IN_PLACE, values.data() + at, to_int(count), type, operation, comm_), "MPI_Allreduce");
    }
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool alarm_ = false;
  std::vector<MPI_Request> alarms_;
  std::vector<std::int64_t> alarms_sent_;  // by peer, since the last clear
};

}  // namespace

std::unique_ptr<Communicator> mpi_world() {
  return std::make_unique<MpiCommunicator>();
}

}  // namespace reshard::exchange
