// The kernel of copy tasks on a GPU, against what copying every element alone leaves.

#define DOCTEST_CONFIG_IMPLEMENT
#include "reshard/exchange/cuda/copy_kernels.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/device.hpp"
#include "support/copy_scenes.hpp"

using namespace reshard;
using gpu_test::check;
using gpu_test::DeviceMemory;

namespace {

std::vector<std::byte> run_scene(const copy_scenes::CopyScene& scene) {
  const std::size_t task_bytes = scene.tasks.size() * sizeof(exchange::CopyTask);
  const DeviceMemory memory(scene.before.size());
  const DeviceMemory tasks(task_bytes);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaMemcpyAsync(memory.data(), scene.before.data(), scene.before.size(), cudaMemcpyHostToDevice, stream));
  check(cudaMemcpyAsync(tasks.data(), scene.tasks.data(), task_bytes, cudaMemcpyHostToDevice, stream));
  check(exchange::cuda::launch_copies(reinterpret_cast<const exchange::CopyTask*>(tasks.data()),
                                      static_cast<std::int64_t>(scene.tasks.size()), scene.tiles, memory.data(),
                                      stream));
  std::vector<std::byte> out(scene.before.size());
  check(cudaMemcpyAsync(out.data(), memory.data(), out.size(), cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  check(cudaStreamDestroy(stream));
  return out;
}

}  // namespace

TEST_CASE("the kernel leaves in device memory what copying every element alone leaves, and touches nothing else") {
  for (const copy_scenes::CopyScene& scene : copy_scenes::copy_scenes()) {
    CAPTURE(scene.name);
    CHECK(copy_scenes::difference(run_scene(scene), scene.after) == "");
  }
}

TEST_CASE("no tasks are no launch, and more tiles than a grid has blocks are refused") {
  CHECK(exchange::cuda::launch_copies(nullptr, 0, 0, nullptr, nullptr) == cudaSuccess);
  CHECK(exchange::cuda::launch_copies(nullptr, 1, std::int64_t{1} << 31, nullptr, nullptr) == cudaErrorInvalidValue);
}

int main(int argc, char** argv) {
  if (const auto reason = gpu_test::no_gpu()) {
    fmt::print("no GPU: not run ({})\n", *reason);
    return gpu_test::kSkipped;
  }
  return doctest::Context(argc, argv).run();
}
