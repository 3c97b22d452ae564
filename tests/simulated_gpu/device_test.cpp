// The Device on the simulated CUDA and NCCL: rounds that go well.

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <string>

#include "mpi/world.hpp"
#include "simulated_gpu/machine.hpp"
#include "simulated_gpu/traffic.hpp"
#include "support/simulated_gpu/nccl_world.hpp"
#include "support/simulated_gpu/simulated_gpus.hpp"

using namespace reshard;
using namespace reshard::simulated_test;
using mpi_test::outcome;
using mpi_test::world;

namespace {

constexpr std::chrono::milliseconds kPatience{60'000};

/// Rounds with one in flight beside the one that is prepared. Returns the wrong bytes of all.
std::int64_t run_rounds(exchange::Device& device, const Traffic& traffic, int rounds) {
  std::int64_t wrong = 0;
  for (int round = 0; round <= rounds; ++round) {
    const int slot = round % exchange::kDeviceSlots;
    if (round < rounds) device.start(slot, traffic.prepare(round, device.host(slot)));
    if (round == 0) continue;
    const int before = (round - 1) % exchange::kDeviceSlots;
    device.finish(before);
    wrong += traffic.wrong_bytes(round - 1, device.host(before));
  }
  return wrong;
}

struct Result {
  std::int64_t wrong = 0;
  std::int64_t sent = 0;
  std::int64_t to_send = 0;
};

Result run(std::int64_t largest, const Sizes& sizes, int rounds) {
  const Traffic traffic(world().rank(), world().size(), largest, sizes);
  const auto gpus = simulated_gpu::simulated_gpus();
  REQUIRE(gpus->refusal(world()) == std::nullopt);
  const auto device = gpus->open(world(), traffic.memory(), kPatience);
  Result out;
  out.wrong = run_rounds(*device, traffic, rounds);
  out.sent = device->bytes_sent();
  for (int round = 0; round < rounds; ++round) out.to_send += traffic.bytes_sent(round);
  return out;
}

}  // namespace

TEST_CASE("simulated GPU: messages of all sizes between all processes arrive, round after round") {
  for (const char* seed : {"1", "2", "3"}) {
    const MachineWith machine(Variables{{"SIMULATED_GPU_SEED", seed}});
    const Result result = run(70'000, random_sizes(std::stoull(seed), 70'000), 20);
    CHECK(result.wrong == 0);
    CHECK(result.sent == result.to_send);
    CHECK(left_behind() == 0);
  }
}

TEST_CASE("simulated GPU: small messages in many rounds") {
  const Result result = run(20, random_sizes(7, 20), 60);
  CHECK(result.wrong == 0);
  CHECK(result.sent == result.to_send);
}

TEST_CASE("simulated GPU: a process may send to itself alone; such bytes are not counted as sent") {
  const Result result = run(
      5000, [](int round, int from, int to) { return from == to ? 5000 - round : 0; }, 10);
  CHECK(result.wrong == 0);
  CHECK(result.sent == 0);
}

TEST_CASE("simulated GPU: rounds in which some or all processes have nothing to send") {
  const Sizes sizes = [](int round, int from, int to) -> std::int64_t {
    if (round % 3 == 0) return 0;
    return from == round % world().size() && to != from ? 1000 : 0;
  };
  const Result result = run(1000, sizes, 24);
  CHECK(result.wrong == 0);
  CHECK(result.sent == result.to_send);
}

TEST_CASE("simulated GPU: a device without memory opens, takes rounds of nothing and ends without an abort") {
  const auto gpus = simulated_gpu::simulated_gpus();
  REQUIRE(gpus->refusal(world()) == std::nullopt);
  const std::size_t aborted = simulated_gpu::aborted_communicators();
  auto device = gpus->open(world(), {}, kPatience);
  CHECK(device->host(0).empty());
  device->start(0, {});
  device->finish(0);
  device.reset();
  CHECK(left_behind() == 0);
  CHECK(simulated_gpu::aborted_communicators() == aborted);
}

TEST_CASE("simulated GPU: two devices one after the other") {
  for (int i = 0; i < 2; ++i) CHECK(run(3000, random_sizes(11, 3000), 5).wrong == 0);
}

TEST_CASE("simulated GPU: host memory is not read before a round is finished: it is poisoned meanwhile") {
  const Sizes sizes = [](int, int, int) { return 300; };
  const Traffic traffic(world().rank(), world().size(), 300, sizes);
  const auto gpus = simulated_gpu::simulated_gpus();
  REQUIRE(gpus->refusal(world()) == std::nullopt);
  const auto device = gpus->open(world(), traffic.memory(), kPatience);
  device->start(0, traffic.prepare(0, device->host(0)));
  // What goes up still lies there, or the poison of what comes down.
  CHECK(traffic.wrong_bytes(0, device->host(0)) > (world().size() > 1 ? 0 : -1));
  device->finish(0);
  CHECK(traffic.wrong_bytes(0, device->host(0)) == 0);
}

TEST_CASE("simulated GPU: rounds that a slot cannot hold, and calls out of order, are faults of the caller") {
  const auto gpus = simulated_gpu::simulated_gpus();
  REQUIRE(gpus->refusal(world()) == std::nullopt);
  const auto device = gpus->open(world(), {1000, 2000, 1}, kPatience);
  const int me = world().rank();
  using exchange::DeviceRound;
  const auto start = [&](const std::function<void(DeviceRound&)>& fill) {
    DeviceRound round;
    fill(round);
    return outcome([&] { device->start(0, std::move(round)); });
  };
  CHECK(start([&](DeviceRound& round) {
          round.uploads = {{0, 0, 1001}};
        }) == "E_INTERNAL exit 70: a copy on the host of 1001 bytes from 0 on, in a slot's 1000 bytes");
  CHECK(start([&](DeviceRound& round) {
          round.downloads = {{0, 1990, 11}};
        }) == "E_INTERNAL exit 70: a copy on the GPU of 11 bytes from 1990 on, in a slot's 2000 bytes");
  CHECK(start([&](DeviceRound& round) {
          round.sends = {{me, -1, 10}};
        }) == "E_INTERNAL exit 70: a message of 10 bytes from -1 on, in a slot's 2000 bytes");
  CHECK(start([&](DeviceRound& round) {
          round.sends = {{me, 0, 10}, {me, 10, 10}};
        }).starts_with("E_INTERNAL exit 70: two messages of a round"));
  CHECK(start([&](DeviceRound& round) {
          round.receives = {{world().size(), 0, 10}};
        }).starts_with("E_INTERNAL exit 70: a message for process"));
  CHECK(start([&](DeviceRound& round) {
          round.pack = {{}};
          round.unpack = {{}};
        }) == "E_INTERNAL exit 70: 2 copy tasks, a slot has room for 1");
  CHECK(outcome([&] { device->finish(0); }) == "E_INTERNAL exit 70: slot 0 is finished without a round");
  CHECK(outcome([&] { device->start(2, {}); }) == "E_INTERNAL exit 70: slot 2 of 2");
  device->start(0, {});
  CHECK(start([](DeviceRound&) {}) == "E_INTERNAL exit 70: slot 0 is started before its last round is finished");
  device->finish(0);
}
