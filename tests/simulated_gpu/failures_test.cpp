// Failures on the simulated machine: each ends in an error on every process, and leaves nothing behind.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "mpi/world.hpp"
#include "simulated_gpu/machine.hpp"
#include "simulated_gpu/traffic.hpp"
#include "support/simulated_gpu/nccl_world.hpp"
#include "support/simulated_gpu/simulated_gpus.hpp"

using namespace reshard;
using namespace reshard::simulated_test;
using mpi_test::is_same_everywhere;
using mpi_test::outcome;
using mpi_test::world;
using std::chrono::milliseconds;

namespace {

/// Long beside a round even where processes share few cores, which is where the time of these tests goes.
constexpr milliseconds kPatience{3000};
/// For what comes after the patience.
constexpr milliseconds kSlack{15'000};

int failing() {
  return world().size() - 1;
}

Traffic traffic() {
  return {world().rank(), world().size(), 2000, [](int, int, int) { return 2000; }};
}

std::string open_outcome(const Variables& variables, milliseconds patience = kPatience) {
  const MachineWith machine(variables);
  const auto gpus = simulated_gpu::simulated_gpus();
  REQUIRE(gpus->refusal(world()) == std::nullopt);
  const auto begin = std::chrono::steady_clock::now();
  const std::string out = outcome([&] { gpus->open(world(), traffic().memory(), patience); });
  CHECK(std::chrono::steady_clock::now() - begin < patience + kSlack);
  CHECK(left_behind() == 0);
  return out;
}

std::string fails(const char* call, int count) {
  return fmt::format("{}:{}:{}", call, count, failing());
}

std::string by_failing() {
  return world().size() == 1 ? "" : fmt::format(" (seen by process {} of {})", failing(), world().size());
}

/// Rounds one after the other until an error.
std::string rounds_outcome(const Variables& variables) {
  const MachineWith machine(variables);
  const auto gpus = simulated_gpu::simulated_gpus();
  REQUIRE(gpus->refusal(world()) == std::nullopt);
  const Traffic rounds = traffic();
  auto device = gpus->open(world(), rounds.memory(), kPatience);
  std::string out = "done";
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 6 && out == "done"; ++round) {
    const int slot = round % exchange::kDeviceSlots;
    out = outcome([&] { device->start(slot, rounds.prepare(round, device->host(slot))); });
    // A program ends all processes here; the test keeps to their order.
    if (out != "done") world().barrier();
    if (out == "done") out = outcome([&] { device->finish(slot); });
    if (out == "done") CHECK(rounds.wrong_bytes(round, device->host(slot)) == 0);
  }
  CHECK(std::chrono::steady_clock::now() - begin < kPatience + kSlack);
  device.reset();
  CHECK(left_behind() == 0);
  world().barrier();
  return out;
}

const std::string kTimeOut =
    "E_TRANSPORT exit 6: NCCL: a round has not ended within 3 s: a process has stopped, or its GPU or network does "
    "not answer (NCCL_DEBUG=INFO tells more)";

}  // namespace

TEST_CASE("simulated GPU: memory that is not there ends the opening on all processes") {
  CHECK(open_outcome({{"SIMULATED_GPU_FAIL", fails("cudaHostAlloc", 2)}}) ==
        fmt::format("E_MEMORY exit 7: pinned memory: the system does not give {} bytes; give a smaller --memory{}",
                    traffic().memory().tasks * static_cast<std::int64_t>(sizeof(exchange::CopyTask)), by_failing()));
  const std::int64_t bytes = traffic().memory().device_bytes;
  CHECK(
      open_outcome({{"SIMULATED_GPU_FAIL", fails("cudaMalloc", 1)}}) ==
      fmt::format("E_MEMORY exit 7: GPU memory: no {} bytes in one piece, {} of the GPU's {} are free; give a smaller "
                  "--device-memory{}",
                  bytes, 1 << 30, 1 << 30, by_failing()));
  // Two slots, each with its table: what is too much is seen before anything is taken.
  const std::int64_t tables = 2 * traffic().memory().tasks * static_cast<std::int64_t>(sizeof(exchange::CopyTask));
  CHECK(open_outcome({{"SIMULATED_GPU_MEMORY", "5000"}}) ==
        fmt::format("E_MEMORY exit 7: a GPU has 5000 bytes free, the rounds on it take {}: give --device-memory {} or "
                    "less, or free GPU memory",
                    2 * bytes + tables, 5000 - tables));
}

TEST_CASE("simulated GPU: a failing call ends the opening on all processes") {
  for (const char* call : {"cudaSetDevice", "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags"})
    CHECK(open_outcome({{"SIMULATED_GPU_FAIL", fails(call, 1)}}) ==
          fmt::format("E_DEVICE exit 6: {} failed: simulated failure (cudaErrorUnknown){}", call, by_failing()));
  // Nobody waits as long as the patience: the others are told.
  const milliseconds patience = 2 * kSlack;
  for (const char* call : {"ncclCommInitRankConfig", "ncclGroupStart", "ncclGroupEnd"})
    CHECK(open_outcome({{"SIMULATED_GPU_FAIL", fails(call, 1)}}, patience) ==
          fmt::format("E_TRANSPORT exit 6: {} failed: simulated system error{}", call, by_failing()));
  CHECK(open_outcome({{"SIMULATED_GPU_FAIL", fails("ncclSend", 1)}}, patience) ==
        "E_TRANSPORT exit 6: ncclSend, ncclRecv failed: simulated system error" + by_failing());
  CHECK(open_outcome({{"SIMULATED_GPU_FAIL", fails("ncclCommGetAsyncError", 1)}}, patience) ==
        "E_TRANSPORT exit 6: ncclCommInitRankConfig failed: simulated remote error" + by_failing());
  CHECK(open_outcome({{"SIMULATED_GPU_FAIL", fails("cudaEventRecord", 1)}}, patience) ==
        "E_DEVICE exit 6: cudaEventRecord failed: simulated failure (cudaErrorIllegalAddress)" + by_failing());
  CHECK(open_outcome({{"SIMULATED_GPU_FAIL", "ncclGetUniqueId:1:0"}}, patience)
            .starts_with("E_TRANSPORT exit 6: ncclGetUniqueId failed: simulated system error"));
}

TEST_CASE("simulated GPU: an initialisation that never ends is given up after the patience") {
  // The others may be through with the initialisation, and wait for the first exchange.
  for (const char* call : {"ncclCommInitRankConfig", "ncclGroupEnd"}) {
    const std::string found = open_outcome({{"SIMULATED_GPU_HANG", fails(call, 1)}});
    CHECK(found.starts_with("E_TRANSPORT exit 6: NCCL: "));
    CHECK(found.find(" has not ended within 3 s: ") != std::string::npos);
  }
}

TEST_CASE("simulated GPU: a failing call in a round is told by its process; the others see no end") {
  // The first group is that of the opening, and 2 or more copies up are those of the first rounds.
  const int copies = 3 * (world().size() + 1);
  const std::map<std::string, std::string> expected = {
      {fails("cudaMemcpyAsync", copies),
       "E_DEVICE exit 6: cudaMemcpyAsync failed: simulated failure (cudaErrorIllegalAddress)"},
      {fails("launch_copies", 3),
       "E_DEVICE exit 6: launch of a copy kernel failed: simulated failure (cudaErrorIllegalAddress)"},
      {fails("ncclSend", 2 * world().size() + 1),
       "E_TRANSPORT exit 6: ncclSend, ncclRecv failed: simulated system error"},
  };
  for (const auto& [variable, text] : expected) {
    const std::string found = rounds_outcome({{"SIMULATED_GPU_FAIL", variable}});
    CHECK(found == (world().rank() == failing() ? text : kTimeOut));
  }
}

TEST_CASE("simulated GPU: a group that never ends is given up after the patience, by all who have messages in it") {
  const std::string found = rounds_outcome({{"SIMULATED_GPU_HANG", fails("ncclGroupEnd", 3)}});
  CHECK(found == kTimeOut);
}

TEST_CASE("simulated GPU: an error while a round runs ends it") {
  const MachineWith machine(Variables{});
  const auto gpus = simulated_gpu::simulated_gpus();
  REQUIRE(gpus->refusal(world()) == std::nullopt);
  const Traffic rounds = traffic();
  for (const char* call : {"cudaEventQuery", "ncclCommGetAsyncError"}) {
    auto device = gpus->open(world(), rounds.memory(), kPatience);
    {
      // So that the round has not ended when the error comes.
      const MachineWith hanging_machine(Variables{{"SIMULATED_GPU_HANG", fails("ncclGroupEnd", 1)}});
      device->start(0, rounds.prepare(0, device->host(0)));
    }
    const bool fails_here = world().rank() == failing();
    std::string found;
    {
      const MachineWith failing_machine(Variables{{"SIMULATED_GPU_FAIL", fails(call, 1)}});
      found = outcome([&] { device->finish(0); });
    }
    const std::string text = std::string(call) == "cudaEventQuery"
                                 ? "E_DEVICE exit 6: cudaEventQuery failed: simulated failure (cudaErrorIllegalAddress)"
                                 : "E_TRANSPORT exit 6: a round failed: simulated remote error";
    CHECK(found == (fails_here ? text : kTimeOut));
    device.reset();
    CHECK(left_behind() == 0);
    world().barrier();
  }
}

TEST_CASE(
    "simulated GPU: a process that comes late to a round is no failure, however little patience the others have") {
  const auto gpus = simulated_gpu::simulated_gpus();
  REQUIRE(gpus->refusal(world()) == std::nullopt);
  const Traffic rounds = traffic();
  const auto device = gpus->open(world(), rounds.memory(), kPatience);
  if (world().rank() == failing()) std::this_thread::sleep_for(kPatience + milliseconds(1000));
  device->start(0, rounds.prepare(0, device->host(0)));
  CHECK(outcome([&] { device->finish(0); }) == "done");
  CHECK(rounds.wrong_bytes(0, device->host(0)) == 0);
}

TEST_CASE("simulated GPU: a slow machine is no failure") {
  CHECK(rounds_outcome({{"SIMULATED_GPU_SLOW", fails("launch_copies", 20)}}) == "done");
}

TEST_CASE("simulated GPU: a device that is left with a round in flight, or by an exception, ends with an abort") {
  const std::size_t aborted = simulated_gpu::aborted_communicators();
  const auto gpus = simulated_gpu::simulated_gpus();
  REQUIRE(gpus->refusal(world()) == std::nullopt);
  const Traffic rounds = traffic();
  {
    const auto device = gpus->open(world(), rounds.memory(), kPatience);
    device->start(1, rounds.prepare(0, device->host(1)));
  }
  CHECK(simulated_gpu::aborted_communicators() == aborted + 1);
  CHECK(left_behind() == 0);
  CHECK(outcome([&] {
          const auto device = gpus->open(world(), rounds.memory(), kPatience);
          throw Error(Issue{ErrorCode::kIo, "", kNoTensor, "something else"});
        }) == "E_IO exit 5: something else");
  CHECK(simulated_gpu::aborted_communicators() == aborted + 2);
  CHECK(left_behind() == 0);
  world().barrier();
}

TEST_CASE("simulated GPU: a bit that flips after a launch is a wrong byte at the end") {
  for (const int launch : {3, 4}) {
    const MachineWith machine(Variables{{"SIMULATED_GPU_FLIP", fmt::format("{}:{}", launch, failing())}});
    const auto gpus = simulated_gpu::simulated_gpus();
    REQUIRE(gpus->refusal(world()) == std::nullopt);
    const Traffic rounds = traffic();
    const auto device = gpus->open(world(), rounds.memory(), milliseconds(60'000));
    std::int64_t wrong = 0;
    for (int round = 0; round < 3; ++round) {
      device->start(0, rounds.prepare(round, device->host(0)));
      device->finish(0);
      wrong += rounds.wrong_bytes(round, device->host(0));
    }
    world().all_sum({&wrong, 1});
    CHECK(wrong == 1);
  }
}
