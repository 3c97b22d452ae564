#include "reshard/planner/target_map.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "support/random_layouts.hpp"

using namespace reshard;
using planner::TargetMap;
using planner::WriteRegion;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TargetMap map_of(const std::vector<std::int64_t>& file_bytes, int processes) {
  std::vector<std::size_t> files(file_bytes.size());
  std::iota(files.begin(), files.end(), std::size_t{0});
  return TargetMap(files, {}, file_bytes, std::vector<std::size_t>(files.size(), 0), {{}}, files, processes);
}

}  // namespace

TEST_CASE("one process writes everything, a file at a time") {
  CHECK(map_of({10, 0, 3 * kMiB}, 1).regions_of(0) == std::vector<WriteRegion>{{0, 0, 10, 0}, {2, 0, 3 * kMiB, 0}});
}

TEST_CASE("whole files go to one process where that is balanced") {
  const TargetMap map = map_of({4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB}, 2);
  CHECK(map.regions_of(0) == std::vector<WriteRegion>{{0, 0, 4 * kMiB, 0}, {1, 0, 4 * kMiB, 0}});
  CHECK(map.regions_of(1) == std::vector<WriteRegion>{{2, 0, 4 * kMiB, 1}, {3, 0, 4 * kMiB, 1}});
}

TEST_CASE("a file is cut between processes at a multiple of 1 MiB of its offsets") {
  const TargetMap map = map_of({10 * kMiB + 5}, 3);
  CHECK(map.regions(0, 0, 10 * kMiB + 5) ==
        std::vector<WriteRegion>{{0, 0, 3 * kMiB, 0}, {0, 3 * kMiB, 7 * kMiB, 1}, {0, 7 * kMiB, 10 * kMiB + 5, 2}});
  CHECK(map.regions(0, 2 * kMiB, 3 * kMiB) == std::vector<WriteRegion>{{0, 2 * kMiB, 3 * kMiB, 0}});
  CHECK(map.regions(0, 3 * kMiB - 1, 7 * kMiB + 1) == std::vector<WriteRegion>{{0, 3 * kMiB - 1, 3 * kMiB, 0},
                                                                               {0, 3 * kMiB, 7 * kMiB, 1},
                                                                               {0, 7 * kMiB, 7 * kMiB + 1, 2}});
  CHECK(map.regions(0, 5, 5) == std::vector<WriteRegion>{});
}

TEST_CASE("processes share the line in its order") {
  const TargetMap map({0, 1, 2, 3}, {}, {4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB}, {0, 0, 0, 0}, {{}},
                      std::vector<std::size_t>{0, 2, 1, 3}, 2);
  CHECK(map.regions_of(0) == std::vector<WriteRegion>{{0, 0, 4 * kMiB, 0}, {2, 0, 4 * kMiB, 0}});
  CHECK(map.regions_of(1) == std::vector<WriteRegion>{{1, 0, 4 * kMiB, 1}, {3, 0, 4 * kMiB, 1}});
}

TEST_CASE("a file below 1 MiB has one writer, whatever the number of processes") {
  const TargetMap map = map_of({1000}, 64);
  CHECK(map.regions(0, 0, 1000).size() == 1);
}

TEST_CASE("replicas that share a file and tensors of a numbered set find their files and offsets") {
  // Ranks 0 and 1 share file 0, rank 2 has file 1 and 2, laid out alike; tensor 1 lies in the second file of a set.
  const TargetMap map({0, 0, 1}, {0, 1}, {100, 100, 100}, {0, 1, 1}, {{{0, 8}, {1, 16}}, {{0, 24}, {1, 32}}},
                      std::vector<std::size_t>{0, 1, 2}, 1);
  const std::vector<layout::Index> ranks = {2, 1, 0};
  CHECK(map.files_of(0, ranks) == std::vector<std::size_t>{0, 1});
  CHECK(map.files_of(1, ranks) == std::vector<std::size_t>{1, 2});
  CHECK(map.file(1, 2) == 2);
  CHECK(map.offset(0, 0) == 8);
  CHECK(map.offset(1, 2) == 32);
}

TEST_CASE(
    "regions cover every file without a gap, every block has one writer, and no process writes much more than its "
    "share") {
  random_layouts::Random random(20260904);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::int64_t> bytes;
    for (layout::Index f = random.between(1, 12); f > 0; --f)
      bytes.push_back(random.chance(30) ? random.between(0, 3000) : random.between(0, 40 * kMiB));
    const int processes = static_cast<int>(random.between(1, 9));
    CAPTURE(i);
    const TargetMap map = map_of(bytes, processes);
    std::vector<std::int64_t> written(static_cast<std::size_t>(processes), 0);
    int last_process = 0;
    for (std::size_t f = 0; f < bytes.size(); ++f) {
      std::int64_t at = 0;
      for (const WriteRegion& region : map.regions(f, 0, bytes[f])) {
        CHECK(region.begin == at);
        CHECK(region.begin % kMiB == 0);
        CHECK(region.end > region.begin);
        CHECK(region.process >= last_process);  // in order: mostly whole files
        REQUIRE(region.process < processes);
        written[static_cast<std::size_t>(region.process)] += region.end - region.begin;
        last_process = region.process;
        at = region.end;
      }
      CHECK(at == bytes[f]);
    }
    const std::int64_t total = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
    for (const std::int64_t share : written) CHECK(std::abs(share - total / processes) <= kMiB + processes);
  }
}
