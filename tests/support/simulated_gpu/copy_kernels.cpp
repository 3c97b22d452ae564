// The launcher of the copy kernels: their body, thread by thread, in a step of the stream.

#include "reshard/exchange/cuda/copy_kernels.hpp"

#include <algorithm>

#include "reshard/exchange/cuda/copy_body.hpp"
#include "support/simulated_gpu/faults.hpp"
#include "support/simulated_gpu/memory.hpp"
#include "support/simulated_gpu/streams.hpp"

namespace reshard::exchange::cuda {
namespace {

using namespace simulated_gpu;

/// Fewer than on a GPU; the elements of a tile are shared out the same way.
constexpr int kThreads = 3;

void run(const CopyTask* tasks, std::int64_t count, std::int64_t tiles, std::byte* memory, bool flip) {
  constexpr const char* name = "a copy kernel";
  const Access table(holder(MemoryKind::kDevice, tasks, static_cast<std::size_t>(count) * sizeof(CopyTask), name));
  const Access block(holder(MemoryKind::kDevice, memory, 1, name));
  if (!std::is_sorted(tasks, tasks + count,
                      [](const CopyTask& a, const CopyTask& b) { return a.first_tile < b.first_tile; }))
    misuse("the tasks of a launch are not numbered");
  // Backwards: no tile may count on another one.
  for (std::int64_t tile = tiles - 1; tile >= 0; --tile)
    for (int thread = kThreads - 1; thread >= 0; --thread) copy_tile(tasks, count, tile, thread, kThreads, memory);
  if (flip) memory[tasks[0].target] ^= std::byte{1};
}

}  // namespace

cudaError_t launch_copies(const CopyTask* tasks, std::int64_t count, std::int64_t tiles, std::byte* memory,
                          cudaStream_t stream) {
  if (call("launch_copies") == Fate::kFails) return cudaErrorIllegalAddress;
  check_stream(stream, "launch_copies");
  if (count <= 0 || tiles <= 0) misuse("a launch of nothing");
  enqueue(stream, {[=, flip = flips_after_launch()] {
                     run(tasks, count, tiles, memory, flip);
                     return true;
                   },
                   {},
                   {}});
  return cudaSuccess;
}

}  // namespace reshard::exchange::cuda
