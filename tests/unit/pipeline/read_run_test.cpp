#include "reshard/pipeline/read_run.hpp"

#include <doctest/doctest.h>

#include "unit/pipeline/run_fixtures.hpp"

using namespace reshard;
using pipeline::ReadRun;
using planner::Index;
using planner::SourcePart;
using Reads = std::vector<test::CountedFormat::Read>;

namespace {

const std::string kFirst = "rank-00000.safetensors";
const std::string kSecond = "rank-00001.safetensors";

/// Elements [begin, end) of a rank's tensor of one dim.
SourcePart elements(Index rank, Index begin, Index end) {
  return {rank, begin, 1, end - begin, 0, end - begin};
}

/// Adds the i-th piece; `is_read`: whether the run has its bytes.
struct Piece {
  std::string tensor;
  SourcePart part;
  bool is_read = true;
};

void check(test::CopyJob& scene, ReadRun& run, const std::vector<Piece>& pieces, const Reads& reads) {
  run.begin();
  for (const Piece& piece : pieces) run.add(scene.number_of(piece.tensor), piece.part);
  run.read();
  CHECK(scene.take_reads() == reads);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    CAPTURE(i);
    const auto bytes = run.at(i);
    CHECK(bytes.has_value() == pieces[i].is_read);
    if (!bytes) continue;
    const std::vector<std::byte> expected = scene.content(scene.number_of(pieces[i].tensor), pieces[i].part);
    CHECK(std::vector<std::byte>(bytes->begin(), bytes->end()) == expected);
  }
  CHECK_FALSE(run.at(pieces.size()));
}

}  // namespace

TEST_CASE("small pieces that lie one behind the other are read by one call, in whatever order they come") {
  test::CopyJob scene({{"a", Dtype::kF32, {8}, {16}}, {"b", Dtype::kF32, {8}, {16}}, {"c", Dtype::kF32, {8}, {16}}});
  ReadRun run(scene.job(), 4096);
  const std::int64_t a = scene.offset_of(0, "a");
  CHECK(scene.offset_of(0, "b") == a + 32);
  CHECK(scene.offset_of(0, "c") == a + 64);
  check(scene, run,
        {{"c", elements(1, 0, 8)},
         {"b", elements(0, 0, 8)},
         {"a", elements(1, 0, 8)},
         {"a", elements(0, 0, 8)},
         {"c", elements(0, 0, 8)},
         {"b", elements(1, 0, 8)}},
        {{kFirst, a, 96}, {kSecond, a, 96}});
  // A list begins anew: what the one before it had is gone.
  check(scene, run, {{"b", elements(1, 0, 8)}}, {{kSecond, a + 32, 32}});
  check(scene, run, {}, {});
  // With something between them, or twice the same, they are calls of their own.
  check(scene, run, {{"c", elements(0, 0, 8)}, {"a", elements(0, 0, 8)}}, {{kFirst, a, 32}, {kFirst, a + 64, 32}});
  check(scene, run, {{"a", elements(0, 0, 8)}, {"a", elements(0, 0, 8)}, {"a", elements(0, 1, 8)}},
        {{kFirst, a, 32}, {kFirst, a, 32}, {kFirst, a + 4, 28}});
  // The end of one file and the beginning of another are not one piece.
  check(scene, run, {{"a", elements(0, 0, 8)}, {"b", elements(1, 0, 8)}}, {{kFirst, a, 32}, {kSecond, a + 32, 32}});
}

TEST_CASE("a piece begins at its first wanted column") {
  test::CopyJob scene({{"w", Dtype::kF32, {4, 6}, {8, 6}}});
  ReadRun run(scene.job(), 4096);
  check(scene, run, {{"w", {0, 6, 3, 6, 2, 3}}}, {{kFirst, scene.offset_of(0, "w") + (6 + 2) * 4, (2 * 6 + 3) * 4}});
}

TEST_CASE("pieces beyond a quarter of the memory, or beyond all of it together, are the caller's") {
  test::CopyJob scene({{"w", Dtype::kU8, {2000}, {4000}}});
  ReadRun run(scene.job(), 1024);
  const std::int64_t w = scene.offset_of(0, "w");
  check(scene, run, {{"w", elements(0, 0, 257), false}, {"w", elements(0, 300, 556)}}, {{kFirst, w + 300, 256}});
  CHECK(run.peak_bytes() == 1024);
  check(scene, run,
        {{"w", elements(0, 0, 256)},
         {"w", elements(0, 256, 512)},
         {"w", elements(0, 512, 768)},
         {"w", elements(0, 768, 1023)},
         {"w", elements(0, 1023, 1025), false},
         {"w", elements(0, 1023, 1024)},
         {"w", elements(0, 1024, 1025), false}},
        {{kFirst, w, 1024}});
  check(scene, run, {{"w", elements(0, 0, 256)}, {"w", elements(1, 0, 256)}}, {{kFirst, w, 256}, {kSecond, w, 256}});
}

TEST_CASE("what does not lie in the file as it is wanted, or is read row by row, is the caller's") {
  test::CopyJob scene({{"big", Dtype::kF32, {8}, {16}},
                       {"chunked", Dtype::kF32, {8}, {16}},
                       {"rows", Dtype::kU8, {4, 100000}, {8, 100000}},
                       {"w", Dtype::kF32, {8}, {16}}});
  ReadRun run(scene.job(), std::int64_t{1} << 20);
  check(scene, run,
        {{"big", elements(0, 0, 8), false},
         {"chunked", elements(0, 0, 8), false},
         {"rows", {0, 0, 2, 100000, 0, 40000}, false},  // 40,000 of 100,000 bytes: two reads
         {"w", elements(0, 3, 3), false},
         {"w", elements(0, 3, 4)}},
        {{kFirst, scene.offset_of(0, "w") + 12, 4}});
}

TEST_CASE("a run without pieces takes no memory") {
  test::CopyJob scene({{"w", Dtype::kF32, {8}, {16}}});
  ReadRun run(scene.job(), 4096);
  check(scene, run, {}, {});
  CHECK(run.peak_bytes() == 0);
}
