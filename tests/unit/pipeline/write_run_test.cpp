#include "reshard/pipeline/write_run.hpp"

#include <doctest/doctest.h>

#include "unit/pipeline/run_fixtures.hpp"

using namespace reshard;
using pipeline::WriteRun;

namespace {

struct Scene {
  test::CopyJob files{{{"w", Dtype::kU8, {1000}, {2000}}}};
  WriteRun run{files.job(), 64};
  std::vector<planner::WriteRegion> taken;

  /// Bytes that have been written after a region was taken and filled.
  std::int64_t take(std::size_t file, std::int64_t begin, std::int64_t end) {
    taken.push_back({file, begin, end, 0});
    std::ranges::fill(run.take(taken.back()), static_cast<std::byte>(taken.size()));
    return files.progress_bytes;
  }
  /// All that was taken stands in the files.
  void finish() {
    run.write();
    for (std::size_t i = 0; i < taken.size(); ++i) {
      CAPTURE(i);
      const std::size_t n = static_cast<std::size_t>(taken[i].end - taken[i].begin);
      CHECK(files.target(taken[i].file, taken[i].begin, taken[i].end) ==
            std::vector<std::byte>(n, static_cast<std::byte>(i + 1)));
    }
  }
};

}  // namespace

TEST_CASE("pieces that lie one behind the other in a file are written by one call, up to the memory") {
  Scene scene;
  CHECK(scene.take(0, 100, 116) == 0);
  CHECK(scene.take(0, 116, 120) == 0);
  CHECK(scene.take(0, 120, 136) == 0);
  CHECK(scene.take(0, 136, 152) == 0);
  CHECK(scene.take(0, 152, 164) == 0);   // 64 bytes
  CHECK(scene.take(0, 164, 165) == 64);  // no more
  scene.finish();
  CHECK(scene.files.progress_bytes == 65);
  scene.run.write();
  CHECK(scene.files.progress_bytes == 65);
  CHECK(scene.run.peak_bytes() == 64);
}

TEST_CASE("a piece elsewhere, or at that place of another file, is written on its own") {
  Scene scene;
  CHECK(scene.take(0, 200, 210) == 0);
  CHECK(scene.take(0, 211, 215) == 10);
  CHECK(scene.take(1, 215, 220) == 14);
  CHECK(scene.take(0, 190, 200) == 19);
  CHECK(scene.take(0, 215, 220) == 29);
  scene.finish();
  CHECK(scene.files.progress_bytes == 34);
}

TEST_CASE("a piece behind what is written already begins anew") {
  Scene scene;
  CHECK(scene.take(0, 200, 210) == 0);
  scene.run.write();
  CHECK(scene.take(0, 210, 216) == 10);
  scene.finish();
  CHECK(scene.files.progress_bytes == 16);
}

TEST_CASE("a run takes pieces of up to a quarter of its memory") {
  const Scene scene;
  CHECK(scene.run.takes({0, 10, 26, 0}));
  CHECK_FALSE(scene.run.takes({0, 10, 27, 0}));
}
