#include "reshard/pipeline/move_costs.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

using namespace reshard::pipeline;

namespace {

constexpr std::int64_t kGB = 1'000'000'000;

/// One gigabyte that both of two processes need.
MoveCost both_need_it() {
  return {{{0, {kGB, 1, 0}}, {1, {kGB, 1, 0}}}, kGB, 1, kGB / 2};
}

}  // namespace

TEST_CASE("seconds of both ways are bytes over rates and reads") {
  const Machine disk{Storage::kDisk, 1};
  CHECK(direct_seconds(both_need_it(), disk, 2) == doctest::Approx(2 / 2.0 + 2 * 2e-5 / 2));
  CHECK(exchange_seconds(both_need_it(), disk, 2) == doctest::Approx(1 / 2.0 + 2e-5 / 2 + 1 / 4.0 + 0.5 / 8.0));
  const Machine memory{Storage::kMemory, 1};
  CHECK(direct_seconds(both_need_it(), memory, 2) == doctest::Approx(2 / 8.0 + 2 * 1e-6 / 2));
  CHECK(exchange_seconds(both_need_it(), memory, 2) == doctest::Approx(1 / 8.0 + 1e-6 / 2 + 1 / 4.0 + 0.5 / 8.0));
  const Machine nodes{Storage::kNetwork, 2};
  CHECK(exchange_seconds(both_need_it(), nodes, 2) == doctest::Approx(1 / 2.0 + 5e-4 / 2 + 1 / 4.0 + 0.5 / 4.0));
}

TEST_CASE("what everyone reads is exchanged where reading is dear, and read by all where it is cheap") {
  for (const Storage storage : {Storage::kDisk, Storage::kNetwork})
    CHECK(exchange_seconds(both_need_it(), {storage, 1}, 2) < direct_seconds(both_need_it(), {storage, 1}, 2));
  CHECK(exchange_seconds(both_need_it(), {Storage::kMemory, 1}, 2) >
        direct_seconds(both_need_it(), {Storage::kMemory, 1}, 2));
}

TEST_CASE("what is read once anyway is never exchanged") {
  const MoveCost halves{{{0, {kGB / 2, 1, 0}}, {1, {kGB / 2, 1, 0}}}, kGB, 2, 0};
  for (const Storage storage : {Storage::kMemory, Storage::kDisk, Storage::kNetwork})
    for (const int nodes : {1, 2})
      CHECK(direct_seconds(halves, {storage, nodes}, 2) < exchange_seconds(halves, {storage, nodes}, 2));
}

TEST_CASE("GPUs pay where much goes through the rounds, not where starting them takes longer") {
  const Machine disk{Storage::kDisk, 1};
  CHECK(gpu_exchange_seconds(both_need_it(), disk, 2) == doctest::Approx(3 + 1 / 2.0 + 2e-5 / 2 + 1 / 8.0 + 0.5 / 8.0));
  CHECK(gpu_exchange_seconds(both_need_it(), disk, 2) > exchange_seconds(both_need_it(), disk, 2));
  const MoveCost large{{}, 100 * kGB, 100, 50 * kGB};
  CHECK(gpu_exchange_seconds(large, disk, 2) < exchange_seconds(large, disk, 2));
  CHECK(gpu_exchange_seconds(large, disk, 64) > exchange_seconds(large, disk, 64));
}

TEST_CASE("short runs count over a network: the same bytes in many reads") {
  MoveCost rows = both_need_it();
  for (auto& [process, cost] : rows.direct) cost = {kGB / 2, 100'000, 0};  // its columns of every row
  const double direct_over_network = direct_seconds(rows, {Storage::kNetwork, 1}, 2);
  CHECK(direct_over_network == doctest::Approx(0.5 + 200'000 * 5e-4 / 2));
  CHECK(exchange_seconds(rows, {Storage::kNetwork, 1}, 2) < direct_over_network);
  CHECK(exchange_seconds(rows, {Storage::kMemory, 1}, 2) > direct_seconds(rows, {Storage::kMemory, 1}, 2));
}

TEST_CASE("storage is told by its file system") {
  CHECK(storage_of("/no/such/place") == Storage::kDisk);
  std::ifstream mounts("/proc/mounts");
  for (std::string device, place, type, rest; mounts >> device >> place >> type && std::getline(mounts, rest);) {
    CAPTURE(place);
    if (place.find('\\') != std::string::npos) continue;  // an escaped name
    // A later mount may lie over an earlier one, so only places that cannot be covered are asked.
    if (type == "tmpfs" && place == "/dev/shm") CHECK(storage_of(place) == Storage::kMemory);
    if (type == "ext4" && place == "/") CHECK(storage_of(place) == Storage::kDisk);
  }
}
