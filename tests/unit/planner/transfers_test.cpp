#include "reshard/planner/transfers.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "reshard/planner/held.hpp"
#include "reshard/planner/readers.hpp"
#include "support/cut_text.hpp"
#include "support/moves.hpp"

using namespace reshard;
using namespace reshard::planner;
using cut_text::axis;
using cut_text::cut;
using cut_text::refusal;
using layout::DimCut;
using layout::Index;
using layout::Level;
using layout::Mesh;
using layout::TensorLayout;

namespace {

// One dim, its axes also being the mesh where none is given.
TensorLayout line(Index length, const DimCut& cut, std::vector<layout::Axis> axes = {}) {
  if (axes.empty())
    for (const Level& level : cut.levels) axes.push_back({level.axis, level.axis_size});
  return layout::lay_out({length}, {{cut}, {}}, Mesh(std::move(axes)));
}

// "t0: 0[0:36]->[0:36]; t1: ..." as the tables write it, of the first dim.
std::string table(const TensorLayout& source, const TensorLayout& target) {
  std::string out;
  Index last = -1;
  for (const Transfer& move : cases::plan(source, target)) {
    const auto [a, b] = move.source_box[0];
    const auto [e, f] = move.target_box[0];
    out += fmt::format("{}{}[{}:{}]->[{}:{}]",
                       move.target_rank == last ? ", " : fmt::format("{}t{} ", last < 0 ? "" : "; ", move.target_rank),
                       move.source_rank, a, b, e, f);
    last = move.target_rank;
  }
  return out;
}

DimCut strided(const std::string& name, Index size, Index stride) {
  return cut(name, size, [&](Level& l) { l.stride = stride; });
}

}  // namespace

TEST_CASE("worked transfers of weights come out as in the table") {
  CHECK(table(line(144, cut("tp", 3)), line(144, cut("tp", 4))) ==
        "t0 0[0:36]->[0:36]; t1 0[36:48]->[0:12], 1[0:24]->[12:36]; t2 1[24:48]->[0:24], 2[0:12]->[24:36]; t3 "
        "2[12:48]->[0:36]");
  CHECK(table(line(64, strided("tp", 2, 2)), line(64, {})) ==
        "t0 0[0:16]->[0:16], 1[0:16]->[16:32], 0[16:32]->[32:48], 1[16:32]->[48:64]");
  const auto qkv = [](Index n) {
    return cut("tp", n, [](Level& l) { l.segments = {{32, {}, {}}, {16, {}, {}}, {8, {}, {}}}; });
  };
  CHECK(
      table(line(56, qkv(2)), line(56, qkv(4))) ==
      "t0 0[0:8]->[0:8], 0[16:20]->[8:12], 0[24:26]->[12:14]; t1 0[8:16]->[0:8], 0[20:24]->[8:12], 0[26:28]->[12:14]; "
      "t2 1[0:8]->[0:8], 1[16:20]->[8:12], 1[24:26]->[12:14]; t3 1[8:16]->[0:8], 1[20:24]->[8:12], 1[26:28]->[12:14]");
  const std::string fourth = table(line(144, strided("tp", 4, 3)), line(144, strided("tp", 2, 2)));
  CHECK(fourth.substr(0, fourth.find(';')) ==
        "t0 0[0:12]->[0:12], 1[0:12]->[12:24], 2[0:12]->[24:36], 2[12:24]->[36:48], 3[12:24]->[48:60], "
        "0[24:36]->[60:72]");
}

TEST_CASE("worked transfers of padded inner axes come out as in the table") {
  const auto padded = [](Index n, Index rows) { return cut("gtp", n, [&](Level& l) { l.pad_rows = rows; }); };
  CHECK(table(line(6, padded(2, 2)), line(6, cut("gtp", 3))) == "t0 0[0:2]->[0:2]; t1 0[2:4]->[0:2]; t2 1[0:2]->[0:2]");
  CHECK(table(line(6, {}), line(6, padded(2, 2))) == "t0 0[0:4]->[0:4]; t1 0[4:6]->[0:2]");
  const std::vector<layout::Axis> gtp_tp = {{"gtp", 2}, {"tp", 2}};
  DimCut column = cut("tp", 2);
  column.levels.push_back(axis("gtp", 2));
  CHECK(table(line(8, column, gtp_tp), line(8, {})) == "t0 0[0:2]->[0:2], 2[0:2]->[2:4], 1[0:2]->[4:6], 3[0:2]->[6:8]");
  column.levels[0].stride = 2;
  CHECK(table(line(8, column, gtp_tp), line(8, {})) == "t0 0[0:2]->[0:2], 1[0:2]->[2:4], 2[0:2]->[4:6], 3[0:2]->[6:8]");
  CHECK(table(line(16, strided("tp", 2, 2)), line(16, cut("gtp", 2))) ==
        "t0 0[0:4]->[0:4], 1[0:4]->[4:8]; t1 0[4:8]->[0:4], 1[4:8]->[4:8]");
  DimCut gated = strided("tp", 2, 2);
  gated.levels.push_back(axis("gtp", 3));
  gated.levels[1].pad_rows = 1;
  const TensorLayout six = line(16, gated, {{"gtp", 3}, {"tp", 2}});
  CHECK(table(six, line(16, strided("tp", 4, 2))) ==
        "t0 0[0:2]->[0:2], 2[1:3]->[2:4]; t1 0[2:3]->[0:1], 2[0:1]->[1:2], 4[0:2]->[2:4]; "
        "t2 1[0:2]->[0:2], 3[1:3]->[2:4]; t3 1[2:3]->[0:1], 3[0:1]->[1:2], 5[0:2]->[2:4]");
}

TEST_CASE("rows become columns box by box") {
  const TensorLayout rows = layout::lay_out({8, 8}, {{cut("tp", 2), {}}, {}}, Mesh({{"tp", 2}}));
  const TensorLayout columns = layout::lay_out({8, 8}, {{{}, cut("tp", 2)}, {}}, Mesh({{"tp", 2}}));
  CHECK(cases::plan(rows, columns) == std::vector<Transfer>{{0, 0, {{0, 4}, {0, 4}}, {{0, 4}, {0, 4}}},
                                                            {1, 0, {{0, 4}, {0, 4}}, {{4, 8}, {0, 4}}},
                                                            {0, 1, {{0, 4}, {4, 8}}, {{0, 4}, {0, 4}}},
                                                            {1, 1, {{0, 4}, {4, 8}}, {{4, 8}, {0, 4}}}});
}

TEST_CASE("a scalar moves as a box without dims, and a dim of length 0 not at all") {
  const TensorLayout scalar = layout::lay_out({}, {}, Mesh({{"dp", 2}}));
  CHECK(cases::plan(scalar, layout::lay_out({}, {}, Mesh())) == std::vector<Transfer>{{0, 0, {}, {}}});
  const TensorLayout empty = layout::lay_out({0, 4}, {{{}, cut("tp", 2)}, {}}, Mesh({{"tp", 2}}));
  CHECK(cases::plan(empty, empty).empty());
}

TEST_CASE("ranges of a dim are cut where its holders change, and only there") {
  const DimCut fused = cut("tp", 4, [](Level& l) { l.segments = {{8, {}, {}}, {4, 2, layout::Fallback::kRepeat}}; });
  const std::vector<HeldRange> ranges = held_ranges(line(12, fused).dims[0]);
  REQUIRE(ranges.size() == 6);
  CHECK(ranges[3] == HeldRange{6, 2, {{3, 0}}});
  CHECK(ranges[4] == HeldRange{8, 2, {{0, 2}, {1, 2}}});
  CHECK(ranges[5] == HeldRange{10, 2, {{2, 2}, {3, 2}}});
}

TEST_CASE("overlaps that repeat makes are read once each, from all their holders in turn") {
  const DimCut repeat = cut("tp", 4, [](Level& l) { l.unit = 4, l.fallback = layout::Fallback::kRepeat; });
  CHECK(table(line(8, repeat), line(8, {})) == "t0 0[0:4]->[0:4], 2[0:4]->[4:8]");
  const TensorLayout whole = line(4, {}, {{"dp", 2}});
  const std::vector<TensorToRead> two = {{&whole, 2}, {&whole, 2}};
  CHECK(choose_sources(two) == std::vector<std::vector<Index>>{{0}, {1}});
}

TEST_CASE("elements that no present rank holds are named before anything is planned") {
  const TensorLayout source = layout::lay_out({8, 3}, {{cut("tp", 2), {}}, {true, false}}, Mesh({{"tp", 2}}));
  const TensorToRead tensor{&source, 1};
  CHECK(refusal([&] {
          choose_sources({&tensor, 1});
        }) == "E_COVERAGE: no source rank that is there holds elements [4:8, 0:3]");
}

TEST_CASE("a hole in the source is counted and its first element named") {
  TensorLayout source = line(12, cut("tp", 3));
  source.dims[0].parts[1].runs[0].length = 3;  // rank 1 holds 4:7 instead of 4:8
  const TensorToRead tensor{&source, 1};
  const auto sources = choose_sources({&tensor, 1});
  CHECK(refusal([&] { prove_coverage(source, line(12, {}), sources[0]); }) ==
        "E_COVERAGE: of the 12 elements of target rank 0, 1 have no source and 0 would be written twice; the first is "
        "[7]");
}

TEST_CASE("pieces with one holder come first, then the largest, each to the least loaded") {
  const std::vector<Piece> pieces = {{9, {0, 1, 2}}, {5, {0}}, {4, {0, 1}}, {2, {1, 2}}};
  CHECK(assign_readers(pieces) == std::vector<Index>{2, 0, 1, 2});
}

TEST_CASE("a cover counts holes and overlaps exactly and never by projection") {
  const auto box = [](Index a, Index b, Index c, Index d) { return Box{{a, b}, {c, d}}; };
  CHECK(cover({2, 2}, std::vector<Box>{box(0, 1, 0, 1), box(1, 2, 1, 2)}) == Cover{2, 0, {0, 1}, {}});
  // The right count with one overlap and one hole.
  CHECK(cover({2, 2}, std::vector<Box>{box(0, 2, 0, 1), box(0, 1, 0, 2)}) == Cover{1, 1, {1, 1}, {0, 0}});
  CHECK(cover({2, 2}, std::vector<Box>{box(0, 2, 0, 2), box(0, 2, 0, 2)}) == Cover{0, 0, {}, {}});
  CHECK(cover({3, 5}, std::vector<Box>{box(1, 2, 1, 4), box(0, 3, 2, 3)}) == Cover{10, 1, {0, 0}, {1, 2}});
  std::vector<Box> columns;
  for (Index i = 0; i < 40; ++i) columns.push_back(box(0, 2, i, i + 1));
  CHECK(cover({2, 40}, columns) == Cover{});
  // A box of nothing covers nothing, wherever it lies.
  CHECK(cover({2, 4}, std::vector<Box>{box(0, 2, 0, 4), box(0, 2, 2, 2), box(1, 1, 0, 4)}) == Cover{0, 0, {}, {}});
  // Every dim of a box is held against its own length and its own ends.
  CHECK(cover({4, 2}, std::vector<Box>{box(0, 4, 0, 2)}) == Cover{});
  CHECK(cover({4, 2}, std::vector<Box>{box(3, 4, 0, 1)}) == Cover{7, 0, {0, 0}, {}});
  CHECK(cover({2, 4}, std::vector<Box>{box(0, 1, 3, 4)}) == Cover{7, 0, {0, 0}, {}});
  CHECK(cover({0, 5}, std::vector<Box>{}) == Cover{});
  CHECK(cover({}, std::vector<Box>{}) == Cover{1, 0, {}, {}});
  CHECK(refusal([&] {
          cover({2, 2}, std::vector<Box>{box(0, 3, 0, 1)});
        }) == "E_COVERAGE: a box holds 0:3 of dim 0, which has length 2");
  CHECK(cut_text::refusal([&] {
          cover({4, 4}, std::vector<Box>{box(0, 4, 3, 2)});
        }) == "E_COVERAGE: a box holds 3:2 of dim 1, which has length 4");
  CHECK(cut_text::refusal([&] {
          cover({4, 4}, std::vector<Box>{box(0, 4, -1, 2)});
        }) == "E_COVERAGE: a box holds -1:2 of dim 1, which has length 4");
}

TEST_CASE("equal boxes among transfers are no replicas: written twice") {
  const std::vector<Interval> twice = {{0, 2}, {0, 2}};
  CHECK(cover_each({2}, twice, 2) == Cover{0, 2, {}, {0}});
}
