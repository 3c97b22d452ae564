#include "reshard/exchange/copy_task.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reshard/exchange/cuda/copy_body.hpp"
#include "support/copy_scenes.hpp"

using namespace reshard;
using exchange::CopyTask;
using layout::CopyBox;

namespace {

/// Memory that begins at a multiple of 256, as a GPU's does.
class Memory {
 public:
  explicit Memory(const std::vector<std::byte>& bytes) : blocks_((bytes.size() + 255) / 256), size_(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), data());
  }
  std::byte* data() { return blocks_.data()->bytes; }
  std::vector<std::byte> bytes() { return {data(), data() + size_}; }

 private:
  struct alignas(256) Block {
    std::byte bytes[256];
  };
  std::vector<Block> blocks_;
  std::size_t size_;
};

/// The tiles last to first: their order is nobody's business.
void run_tiles(const std::vector<CopyTask>& tasks, std::int64_t tiles, int threads, std::byte* memory) {
  for (std::int64_t tile = tiles; tile-- > 0;)
    for (int thread = 0; thread < threads; ++thread)
      exchange::cuda::copy_tile(tasks.data(), static_cast<std::int64_t>(tasks.size()), tile, thread, threads, memory);
}

/// A box of so many rows: `bytes` of each, which are `pitch` apart in the source and packed in the target.
CopyBox rows(std::int64_t count, std::int64_t bytes, std::int64_t pitch) {
  CopyBox box;
  box.dims = {{count, pitch, bytes, 1}, {bytes, 1, 1, 1}};
  return box;
}

std::int32_t word_of_move(const CopyBox& box, std::int64_t source_at, std::int64_t target_at) {
  std::vector<CopyTask> tasks;
  exchange::add_move(tasks, box, 1, {}, source_at, target_at);
  REQUIRE(tasks.size() == 1);
  REQUIRE(tasks[0].source_element_bytes == tasks[0].target_element_bytes);
  return tasks[0].target_element_bytes;
}

}  // namespace

TEST_CASE("tasks leave in memory what copying every element alone leaves, and touch nothing else") {
  for (const copy_scenes::CopyScene& scene : copy_scenes::copy_scenes())
    for (const int threads : {7, 128}) {
      CAPTURE(scene.name);
      CAPTURE(threads);
      Memory memory(scene.before);
      run_tiles(scene.tasks, scene.tiles, threads, memory.data());
      CHECK(copy_scenes::difference(memory.bytes(), scene.after) == "");
    }
}

TEST_CASE("all threads of all tiles together write every byte once") {
  constexpr std::int64_t kRows = 700;
  constexpr int kThreads = 7;
  for (const std::int64_t bytes : {16, 48, 50, 111}) {
    std::vector<CopyTask> tasks;
    const std::int64_t target_at = kRows * 128;
    exchange::add_move(tasks, rows(kRows, bytes, 128), 1, {}, 0, target_at);
    exchange::add_zeros(tasks, target_at + kRows * bytes, 3 * exchange::kCopyTileBytes + 16);
    const std::int64_t tiles = exchange::number_tiles(tasks);
    const std::int64_t end = target_at + kRows * bytes + 3 * exchange::kCopyTileBytes + 16;

    // The source is 1 everywhere, so that what a thread writes differs from the 2 that was there.
    std::vector<std::byte> before(static_cast<std::size_t>(end), std::byte{2});
    std::fill_n(before.begin(), target_at, std::byte{1});
    std::vector<int> written(before.size());
    for (std::int64_t tile = 0; tile < tiles; ++tile)
      for (int thread = 0; thread < kThreads; ++thread) {
        Memory memory(before);
        exchange::cuda::copy_tile(tasks.data(), 2, tile, thread, kThreads, memory.data());
        for (std::size_t i = 0; i < before.size(); ++i) written[i] += memory.data()[i] != before[i] ? 1 : 0;
      }
    CHECK(std::all_of(written.begin(), written.begin() + target_at, [](int n) { return n == 0; }));
    CHECK(std::all_of(written.begin() + target_at, written.end(), [](int n) { return n == 1; }));
  }
}

TEST_CASE("a copy moves the widest words that both sides allow") {
  CHECK(word_of_move(rows(3, 48, 64), 1024, 4096) == 16);
  CHECK(word_of_move(rows(3, 48, 64), 1024 + 8, 4096) == 8);
  CHECK(word_of_move(rows(3, 48, 64), 1024, 4096 + 4) == 4);
  CHECK(word_of_move(rows(3, 48, 66), 1024, 4096) == 2);
  CHECK(word_of_move(rows(3, 47, 64), 1024, 4096) == 1);
  CHECK(word_of_move(rows(1, 48, 66), 1024, 4096) == 16);  // the pitch of one row does not matter
}

TEST_CASE("dims that follow each other without a gap are one run") {
  CopyBox box;
  box.dims = {{6, 20, 20, 20}, {5, 4, 4, 4}, {4, 1, 1, 1}};
  std::vector<CopyTask> tasks;
  exchange::add_move(tasks, box, 4, {}, 0, 4096);
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0].run_elements == 6 * 5 * 4 * 4 / 16);
  CHECK(
      std::all_of(std::begin(tasks[0].levels), std::end(tasks[0].levels), [](const auto& l) { return l.extent == 1; }));
}

TEST_CASE("a box of more levels than a task has becomes several tasks, no more than its outer dims have steps") {
  CopyBox box;
  box.dims = {{5, 30000, 9000, 1}, {2, 9000, 4000, 1}, {4, 2000, 900, 1},
              {3, 500, 250, 1},    {4, 90, 50, 1},     {7, 1, 1, 1}};
  std::vector<CopyTask> tasks;
  exchange::add_move(tasks, box, 2, {}, 0, 1 << 20);
  CHECK(tasks.size() == 2);  // a run and five levels: the one of two steps is divided
  for (const CopyTask& task : tasks) CHECK(task.elements() * task.target_element_bytes == box.elements() / 2 * 2);

  random_layouts::Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const CopyBox drawn = copy_scenes::random_box(random);
    const bool has_run =
        drawn.dims.empty() || (drawn.dims.back().source_stride == 1 && drawn.dims.back().target_stride == 1);
    const std::size_t inner = has_run ? exchange::kCopyLevels + 1 : exchange::kCopyLevels;
    std::int64_t most = 1;
    for (std::size_t d = 0; d + inner < drawn.dims.size(); ++d) most *= drawn.dims[d].extent;
    for (int way = 0; way < 3; ++way) {
      tasks.clear();
      if (way == 0) exchange::add_pack(tasks, drawn, 2, {}, 0, 1 << 20);
      if (way == 1) exchange::add_unpack(tasks, drawn, 2, 0, 1 << 20);
      if (way == 2) exchange::add_move(tasks, drawn, 2, {}, 0, 1 << 20);
      CHECK(static_cast<std::int64_t>(tasks.size()) <= most);
    }
  }
  // One element, repeated over five dims that cannot be joined: there is no run.
  CopyBox repeated;
  repeated.dims = {{2, 0, 5000, 1}, {2, 0, 900, 1}, {2, 0, 200, 1}, {3, 0, 50, 1}, {3, 0, 7, 1}};
  tasks.clear();
  exchange::add_move(tasks, repeated, 2, {}, 0, 1 << 20);
  CHECK(tasks.size() == 2);
}

TEST_CASE("nothing to copy is no task") {
  CopyBox box;
  box.dims = {{0, 4, 4, 4}, {4, 1, 1, 1}};
  std::vector<CopyTask> tasks;
  exchange::add_move(tasks, box, 4, {}, 0, 4096);
  exchange::add_zeros(tasks, 4096, 0);
  CHECK(tasks.empty());
  CHECK(exchange::number_tiles(tasks) == 0);
}
