#include "reshard/pipeline/transport.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/cut_text.hpp"
#include "support/replay.hpp"

using namespace reshard;
using layout::Index;
using pipeline::Transport;
using pipeline::TransportPlan;
using pipeline::TransportRequest;

namespace {

/// A matrix of so many rows of 4096 f32 in one file, to be cut by columns over two ranks: both processes would read
/// all of it, as the halves of its rows are too short to be read one by one.
class Columns {
 public:
  explicit Columns(Index rows)
      : pair_(pair_of(rows)), tiling_(pair_.source, pair_.target, Index{1} << 20), map_(map_of(rows)) {
    planner::WorkTensor tensor;
    tensor.tiling = &tiling_;
    tensor.sources = pair_.sources;
    tensor.source_element_bytes = tensor.target_element_bytes = 4;
    work_.push_back(tensor);
  }

  TransportPlan choose(const TransportRequest& request) const {
    return pipeline::choose_transport(request, work_, map_);
  }

 private:
  static replay::Pair pair_of(Index rows) {
    random_layouts::Case c;
    c.shape = {rows, 4096};
    c.source.axes = {{"tp", 1}};
    c.source.cut.dims = {{}, {}};
    c.target.axes = {{"tp", 2}};
    c.target.cut.dims = {{}, cut_text::cut("tp", 2)};
    return *replay::pair_of(c);
  }
  /// A file for each rank, written by a process of its own.
  static planner::TargetMap map_of(Index rows) {
    const std::vector<std::size_t> files = {0, 1};
    const std::vector<planner::TensorOffset> only = {{0, 0}};
    const std::int64_t bytes = rows * 2048 * 4;
    return planner::TargetMap(files, {}, {bytes, bytes}, files, {only, only}, files, 2);
  }

  replay::Pair pair_;
  planner::Tiling tiling_;
  planner::TargetMap map_;
  std::vector<planner::WorkTensor> work_;
};

TransportRequest two_nodes(std::optional<std::string> gpus) {
  TransportRequest out;
  out.machine = {pipeline::Storage::kNetwork, 2, std::move(gpus)};
  out.processes = 2;
  out.memory_bytes = std::int64_t{512} << 20;
  out.device_memory_bytes = std::int64_t{1} << 30;
  return out;
}

constexpr Index kManyRows = Index{4} << 20;  // 64 GiB
constexpr Index kFewRows = Index{64} << 10;  // 1 GiB

}  // namespace

TEST_CASE(
    "auto takes GPUs where so much is exchanged that starting them pays, and says what it expects of either way") {
  const TransportPlan plan = Columns(kManyRows).choose(two_nodes("CUDA 13.0, NCCL 2.28.9"));
  CHECK(plan.transport == Transport::kNccl);
  // Of 128 rows each process would read 127 and a half. 64 GiB, half of them sent: read at 2 GB/s together in 32,768
  // tiles of half a millisecond each, shared by two processes; in rounds of 4 or 2 GB/s in each; sent at 2 GB/s each; 3
  // s to start.
  CHECK(plan.why ==
        "direct would read 1.99 bytes for each one that the target needs; between GPUs (CUDA 13.0, NCCL 2.28.9) an "
        "estimated 62.7 s, from host memory 68.3 s");
  CHECK(plan.exchange.bytes_exchanged == kManyRows * 4096 * 4 / 2);
  CHECK(plan.device_peak_bytes.size() == 2);
  for (const std::int64_t peak : plan.device_peak_bytes) CHECK((peak > 0 && peak <= std::int64_t{1} << 30));
  for (const std::int64_t peak : plan.peak_bytes) CHECK((peak > 0 && peak <= std::int64_t{512} << 20));
}

TEST_CASE("auto exchanges from host memory where GPUs would take longer, or there are none") {
  const TransportPlan small = Columns(kFewRows).choose(two_nodes("CUDA 13.0, NCCL 2.28.9"));
  CHECK(small.transport == Transport::kMpi);
  CHECK(small.why.find("between GPUs") != std::string::npos);
  const TransportPlan without = Columns(kManyRows).choose(two_nodes(std::nullopt));
  CHECK(without.transport == Transport::kMpi);
  CHECK(without.why.find("GPU") == std::string::npos);
  CHECK(without.device_peak_bytes.empty());
}

TEST_CASE("auto goes back to host memory where GPU memory holds no round; who asks for GPUs is told what they need") {
  TransportRequest request = two_nodes("CUDA 13.0, NCCL 2.28.9");
  request.device_memory_bytes = 1000;
  CHECK(Columns(kManyRows).choose(request).transport == Transport::kMpi);
  request.asked = Transport::kNccl;
  std::string message;
  try {
    Columns(kManyRows).choose(request);
  } catch (const Error& error) {
    CHECK(error.exit() == Exit::kMemory);
    message = error.issues().front().message;
  }
  CHECK(message.starts_with("--device-memory 1000 is too small to make progress: at least "));
}
