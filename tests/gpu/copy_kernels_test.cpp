// The kernel of copy tasks on a GPU, against what copying every element alone leaves. `--quick` takes a share of the
// scenes, for tools that slow a GPU down.

#define DOCTEST_CONFIG_IMPLEMENT
#include "reshard/exchange/cuda/copy_kernels.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device.hpp"
#include "support/copy_scenes.hpp"

using namespace reshard;
using gpu_test::check;
using gpu_test::DeviceMemory;

namespace {

bool quick = false;

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
    if (quick && scene.before.size() > 1'000'000) continue;
    CAPTURE(scene.name);
    CHECK(copy_scenes::difference(run_scene(scene), scene.after) == "");
  }
}

TEST_CASE("no tasks are no launch") {
  CHECK(exchange::cuda::launch_copies(nullptr, 0, 0, nullptr, nullptr) == cudaSuccess);
}

int main(int argc, char** argv) {
  if (const auto reason = gpu_test::no_gpu()) {
    fmt::print("no GPU: not run ({})\n", *reason);
    return gpu_test::kSkipped;
  }
  quick = std::any_of(argv + 1, argv + argc, [](const char* a) { return std::string_view(a) == "--quick"; });
  return doctest::Context(argc, argv).run();
}
