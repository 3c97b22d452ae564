// Thousands of ranks on one core, within what a dry run may take.

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "reshard/layout/tensor_layout.hpp"
#include "reshard/planner/readers.hpp"
#include "reshard/planner/transfers.hpp"

using namespace reshard;
using namespace reshard::planner;
using layout::DimCut;
using layout::Level;
using layout::Mesh;
using layout::TensorCut;
using layout::TensorLayout;

namespace {

// Far above what it takes, so that a slow machine or a sanitizer does not fail; a quadratic planner does.
constexpr double kLimitSeconds = 5.0;

DimCut by(const std::string& axis, Index size) {
  DimCut cut;
  Level& level = cut.levels.emplace_back();
  level.axis = axis;
  level.axis_size = size;
  return cut;
}

struct Measured {
  std::size_t transfers = 0;
  double seconds = 0;
};

// Lays out both sides, plans and proves.
Measured measure(const Shape& shape, const TensorCut& from, const Mesh& from_mesh, const TensorCut& to,
                 const Mesh& to_mesh) {
  const auto start = std::chrono::steady_clock::now();
  const TensorLayout source = layout::lay_out(shape, from, from_mesh);
  const TensorLayout target = layout::lay_out(shape, to, to_mesh);
  const TensorToRead tensor{&source, 2};
  const auto sources = choose_sources({&tensor, 1});
  prove_coverage(source, target, sources.front());
  const std::size_t transfers = list_transfers(source, target, sources.front()).size();
  return {transfers, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace

TEST_CASE("one dim of 2^40 elements goes from 1024 to 2048 ranks in milliseconds") {
  const Measured found = measure({Index{1} << 40, 7}, {{by("tp", 1024), {}}, {}}, Mesh({{"tp", 1024}}),
                                 {{by("tp", 2048), {}}, {}}, Mesh({{"tp", 2048}}));
  CHECK(found.transfers == 2048);
  CHECK(found.seconds < kLimitSeconds);
  MESSAGE("1024 -> 2048, one dim: ", found.seconds * 1e3, " ms");
}

TEST_CASE("1536 ranks that share nothing with 2048 but the ends of the dim are planned in milliseconds") {
  const Measured found = measure({6144 * 5, 7}, {{by("tp", 1536), {}}, {}}, Mesh({{"tp", 1536}}),
                                 {{by("tp", 2048), {}}, {}}, Mesh({{"tp", 2048}}));
  CHECK(found.transfers == 3072);
  CHECK(found.seconds < kLimitSeconds);
  MESSAGE("1536 -> 2048, one dim: ", found.seconds * 1e3, " ms");
}

TEST_CASE("1024 ranks with 8 replicas each go to 2048 ranks with 16 replicas each: equal shards are planned once") {
  const Measured found = measure({8192, 8192}, {{by("tp", 128), {}}, {}}, Mesh({{"dp", 8}, {"tp", 128}}),
                                 {{by("tp", 128), {}}, {}}, Mesh({{"dp", 16}, {"tp", 128}}));
  CHECK(found.transfers == 2048);
  CHECK(found.seconds < kLimitSeconds);
  MESSAGE("1024 -> 2048, replicas: ", found.seconds * 1e3, " ms");
}

TEST_CASE("rows over 1024 ranks to columns over 2048: every source shard meets every target shard") {
  const Measured found = measure({4096, 4096}, {{by("tp", 1024), {}}, {}}, Mesh({{"tp", 1024}}),
                                 {{{}, by("tp", 2048)}, {}}, Mesh({{"tp", 2048}}));
  CHECK(found.transfers == 1024 * 2048);
  CHECK(found.seconds < 4 * kLimitSeconds);
  MESSAGE("1024 rows -> 2048 columns, 2,097,152 boxes: ", found.seconds * 1e3, " ms");
}

TEST_CASE("a fused dim with repeated heads, cut by tp and a padded inner axis, goes from 1024 to 2048 ranks") {
  DimCut from = by("tp", 128);
  from.levels[0].segments = {
      {16384, 128, {}}, {1024, 128, layout::Fallback::kRepeat}, {1024, 128, layout::Fallback::kRepeat}};
  from.levels.push_back(by("gtp", 8).levels.front());
  from.levels[1].pad_to = 16;
  DimCut to = from;
  to.levels[1].axis_size = 16;
  const Measured found = measure({18432, 4096}, {{from, {}}, {}}, Mesh({{"gtp", 8}, {"tp", 128}}), {{to, {}}, {}},
                                 Mesh({{"gtp", 16}, {"tp", 128}}));
  CHECK(found.seconds < kLimitSeconds);
  MESSAGE("1024 -> 2048, fused and padded: ", found.seconds * 1e3, " ms, ", found.transfers, " boxes");
}

TEST_CASE("a million tensors' worth of pieces finds readers in seconds") {
  const Mesh mesh({{"dp", 8}, {"tp", 64}});
  const TensorLayout layout = layout::lay_out({65536, 8192}, {{by("tp", 64), {}}, {}}, mesh);
  const std::vector<TensorToRead> tensors(16384, TensorToRead{&layout, 2});
  const auto start = std::chrono::steady_clock::now();
  const auto readers = choose_sources(tensors);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK(readers.size() * readers.front().size() == 1048576);
  CHECK(seconds < 4 * kLimitSeconds);
  MESSAGE("readers of 1,048,576 pieces: ", seconds * 1e3, " ms");
}
