// Which GPU a process takes, and why none, on the simulated machine.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "mpi/world.hpp"
#include "reshard/exchange/nccl/nccl_communicator.hpp"
#include "simulated_gpu/machine.hpp"
#include "support/simulated_gpu/mailbox.hpp"
#include "support/simulated_gpu/simulated_gpus.hpp"

using namespace reshard;
using namespace reshard::simulated_test;
using mpi_test::is_same_everywhere;
using mpi_test::outcome;
using mpi_test::world;

namespace {

std::string refusal() {
  const auto text = simulated_gpu::simulated_gpus()->refusal(world());
  CHECK(is_same_everywhere(text.value_or("")));
  return text.value_or("none");
}

int last() {
  return world().size() - 1;
}

}  // namespace

TEST_CASE("simulated GPU: versions say that they are simulated") {
  const auto gpus = simulated_gpu::simulated_gpus();
  CHECK(gpus->cuda_version() == fmt::format("{}.{} (simulated)", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10));
  CHECK(gpus->nccl_version() == fmt::format("{}.{}.{} (simulated)", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));
}

TEST_CASE("simulated GPU: a machine without a driver") {
  const MachineWith machine(Variables{{"SIMULATED_GPU_COUNT", "0"}});
  CHECK(refusal() == fmt::format("no GPU: there is no NVIDIA driver, or it is older than CUDA {}.{}",
                                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10));
}

TEST_CASE("simulated GPU: all GPUs hidden") {
  const MachineWith machine(Variables{{"CUDA_VISIBLE_DEVICES", ""}});
  CHECK(refusal() == "no GPU: the NVIDIA driver shows none (CUDA_VISIBLE_DEVICES may hide them)");
}

TEST_CASE("simulated GPU: more processes than GPUs") {
  const int size = world().size();
  if (size == 1) return;
  const MachineWith machine(Variables{{"SIMULATED_GPU_COUNT", std::to_string(size - 1)}});
  CHECK(refusal() == fmt::format("too few GPUs: {} processes share {} GPU{}, and each needs one of its own; start at "
                                 "most as many processes on a node as it has GPUs",
                                 size, size - 1, size == 2 ? "" : "s"));
}

TEST_CASE("simulated GPU: as many processes as GPUs") {
  const MachineWith machine(Variables{{"SIMULATED_GPU_COUNT", std::to_string(world().size())}});
  CHECK(refusal() == "none");
}

TEST_CASE("simulated GPU: each process sees another GPU") {
  const MachineWith machine(Variables{{"CUDA_VISIBLE_DEVICES", std::to_string(world().size() - 1 - world().rank())}});
  CHECK(refusal() == "none");
  const auto gpus = simulated_gpu::simulated_gpus();
  REQUIRE(gpus->refusal(world()) == std::nullopt);
  const auto device = gpus->open(world(), {100, 100, 1}, std::chrono::seconds(60));
  device->start(0, {});
  device->finish(0);
}

TEST_CASE("simulated GPU: all see the same one") {
  const MachineWith machine(Variables{{"CUDA_VISIBLE_DEVICES", "3"}});
  const int size = world().size();
  CHECK(refusal() == (size == 1 ? "none"
                                : fmt::format("too few GPUs: {} processes share 1 GPU, and each needs one of its own; "
                                              "start at most as many processes on a node as it has GPUs",
                                              size)));
}

TEST_CASE("simulated GPU: an error of the driver on one process is a refusal on all") {
  const std::string where = world().size() == 1 ? "" : fmt::format(" (process {} of {})", last(), world().size());
  for (const char* call : {"cudaGetDeviceCount", "cudaGetDeviceProperties"}) {
    const MachineWith machine(Variables{{"SIMULATED_GPU_FAIL", fmt::format("{}:1:{}", call, last())}});
    CHECK(refusal() == fmt::format("no GPU: {} failed: simulated failure (cudaErrorUnknown){}", call, where));
  }
}

TEST_CASE("simulated GPU: NCCL refuses two processes on one GPU") {
  if (world().size() == 1) return;
  simulated_gpu::connect();
  exchange::NcclCommunicator nccl(world(), std::chrono::seconds(60));
  const std::string id = exchange::new_id(world());
  CHECK(outcome([&] { nccl.init(id); }) ==
        "E_TRANSPORT exit 6: ncclCommInitRankConfig failed: simulated invalid usage: Duplicate GPU detected");
}
