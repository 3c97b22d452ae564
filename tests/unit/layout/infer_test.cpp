#include "reshard/layout/infer.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "reshard/layout/tensor_layout.hpp"
#include "support/cut_text.hpp"

using namespace reshard;
using namespace reshard::layout;
using cut_text::axis;
using cut_text::cut;
using cut_text::refusal;

namespace {

Index infer(const DimCut& cut, const std::vector<Index>& stored, std::optional<Index> recorded = {}) {
  std::vector<Axis> axes;
  for (const Level& level : cut.levels) axes.push_back({level.axis, level.axis_size});
  return infer_length(cut, Mesh(axes), stored, recorded);
}

std::string refused(const DimCut& cut, const std::vector<Index>& stored, std::optional<Index> recorded = {}) {
  return refusal([&] { infer(cut, stored, recorded); });
}

const DimCut kRepeated = cut("tp", 4, [](Level& l) {
  l.unit = 2;
  l.fallback = Fallback::kRepeat;
});

}  // namespace

TEST_CASE("stored lengths of an even cut multiply, others add up") {
  CHECK(infer(cut("tp", 2), {64, 64}) == 128);
  CHECK(infer(cut("tp", 4, [](Level& l) { l.split = Split::kBalanced; }), {3, 3, 2, 2}) == 10);
  CHECK(infer(cut("tp", 4, [](Level& l) { l.split = Split::kChunk; }), {2, 2, 1, 0}) == 5);
  CHECK(infer(cut("gtp", 2, [](Level& l) { l.pad_rows = 2; }), {4, 4}) == 6);
}

TEST_CASE("a length of 2^40 behind 1024 ranks is found at once") {
  CHECK(infer(cut("tp", 1024), std::vector<Index>(1024, Index{1} << 30)) == Index{1} << 40);
  CHECK(refused(cut("gtp", 2, [](Level& l) { l.pad_to = Index{1} << 38; }), {Index{1} << 39, Index{1} << 39}) ==
        "E_PAD: the ranks store 549755813888, 549755813888: any true length from 549755813889 to 1099511627776 may "
        "fit; give 'size'");
}

TEST_CASE("rows that may be padding leave the length open until something tells") {
  const DimCut padded = cut("gtp", 2, [](Level& l) { l.pad_to = 4; });
  CHECK(refused(padded, {8, 8}) == "E_PAD: the ranks store 8, 8: any true length from 9 to 16 may fit; give 'size'");
  CHECK(infer(padded, {8, 8}, 12) == 12);
  CHECK(refused(padded, {8, 8}, 17) ==
        "E_SHAPE: the length the checkpoint records is 17, but the ranks store 8, 8: it would be stored as 12 where 8 "
        "is found; pad_to 4 over axis 'gtp' of size 2 makes its line a multiple of 8; the stored lengths are right for "
        "9 to 16");
  DimCut told = padded;
  told.size = 13;
  CHECK(infer(told, {8, 8}) == 13);
  CHECK(refused(told, {8, 8}, 12) == "E_SHAPE: 'size' is 13, but the length the checkpoint records is 12");
}

TEST_CASE("shards that are not padded as asked are refused with the multiple and with what they are right for") {
  const auto sized = [](DimCut dim, Index size) {
    dim.size = size;
    return dim;
  };
  const DimCut aligned = cut("gtp", 2, [](Level& l) { l.pad_to = 4; });
  CHECK(refused(sized(aligned, 14), {3, 3}) ==
        "E_SHAPE: 'size' is 14, but the ranks store 3, 3: it would be stored as 8 where 3 is found; pad_to 4 over axis "
        "'gtp' of size 2 makes its line a multiple of 8; no length is stored as these are");
  CHECK(refused(sized(aligned, 14), {24, 24}) ==
        "E_SHAPE: 'size' is 14, but the ranks store 24, 24: it would be stored as 8 where 24 is found; pad_to 4 over "
        "axis 'gtp' of size 2 makes its line a multiple of 8; the stored lengths are right for 41 to 48");
  CHECK(refused(aligned, {3, 3}) ==
        "E_SHAPE: the ranks store 3, 3: a length of 6 does not fit: it would be stored as 4 where 3 is found; pad_to 4 "
        "over axis 'gtp' of size 2 makes its line a multiple of 8");
  CHECK(refused(sized(cut("gtp", 2, [](Level& l) { l.pad_rows = 2; }), 14), {4, 4}) ==
        "E_SHAPE: 'size' is 14, but the ranks store 4, 4 (6 in all): it would be stored as 8 where 4 is found; "
        "pad_rows adds 2 to "
        "the line of axis 'gtp' of size 2; the stored lengths are right for 6");
  DimCut vocabulary = sized(cut("tp", 2), 14);
  vocabulary.pad_total = 4;
  CHECK(refused(vocabulary, {12, 12}) ==
        "E_SHAPE: 'size' is 14, but the ranks store 12, 12: it would be stored as 8 where 12 is found; pad_total 4 "
        "over 2 coordinates makes the dim a multiple of 8; the stored lengths are right for 17 to 24");
}

TEST_CASE("heads that may be repeated leave the length open until something tells") {
  CHECK(refused(kRepeated, {2, 2, 2, 2}) ==
        "E_PAD: the ranks store 2, 2, 2, 2: any true length from 2 to 8 may fit; give 'size'");
  CHECK(infer(kRepeated, {2, 2, 2, 2}, 4) == 4);
  CHECK(refused(kRepeated, {2, 2, 2, 2}, 6).rfind("E_SHAPE: ", 0) == 0);
  CHECK(infer(kRepeated, {6, 6, 6, 6}) == 24);
}

TEST_CASE("a head may be a length that only padding leaves open") {
  // A part of 2 rows, padded to 3: three of them and one row less are 5 rows, a head of one of four coordinates. The
  // parts are also those of 2 heads that are repeated, and of 4.
  DimCut dim = cut("tp", 4, [](Level& l) {
    l.unit = 5;
    l.fallback = Fallback::kRepeat;
  });
  dim.levels.push_back(axis("gtp", 3));
  dim.levels.back().pad_rows = 1;
  dim.levels.push_back(axis("cp", 2));
  dim.levels.back().pad_to = 3;
  CHECK(refused(dim, std::vector<Index>(24, 3)) ==
        "E_PAD: the ranks store 3, 3, 3, 3, 3, 3, 3, 3, ...: any true length from 5 to 20 may fit; give 'size'");
  CHECK(infer(dim, std::vector<Index>(24, 3), 10) == 10);
}

TEST_CASE("a dim that may have fallen back is known where only one length fits") {
  const DimCut fallback = cut("tp", 3, [](Level& l) { l.fallback = Fallback::kReplicate; });
  CHECK(infer(fallback, {9, 9, 9}) == 27);  // 9 would have been cut
  CHECK(refused(fallback, {10, 10, 10}) ==
        "E_PAD: the ranks store 10, 10, 10: any true length from 10 to 30 may fit; give 'size'");
  CHECK(infer(fallback, {10, 10, 10}, 10) == 10);
}

TEST_CASE("many levels that may each have fallen back are searched in bounded time") {
  DimCut dim = cut("a", 64, [](Level& l) { l.fallback = Fallback::kReplicate; });
  for (const char* name : {"b", "c"}) {
    dim.levels.push_back(axis(name, 8));
    dim.levels.back().fallback = Fallback::kReplicate;
  }
  CHECK(infer(dim, std::vector<Index>(4096, 0), 0) == 0);
  CHECK(refused(dim, std::vector<Index>(4096, 1)) ==
        "E_PAD: the ranks store 1, 1, 1, 1, 1, 1, 1, 1, ...: any true length from 1 to 4096 may fit; give 'size'");
}

TEST_CASE("segments say how long the dim is") {
  DimCut fused = cut("tp", 2, [](Level& l) { l.segments = {{22, {}, {}}, {22, {}, {}}}; });
  fused.levels.push_back(axis("gtp", 3));
  fused.levels[1].pad_to = 4;
  CHECK(infer(fused, std::vector<Index>(6, 8)) == 44);
  CHECK(refused(cut("tp", 2,
                    [](Level& l) {
                      l.segments = {{32, {}, {}}, {16, {}, {}}};
                    }),
                {28, 28}) ==
        "E_SEGMENT_SUM: the sum of 'segments' is 48, but the ranks store 28, 28: it would be stored as 24 where 28 is "
        "found");
}

TEST_CASE("packed sequences say how long the stream is") {
  const DimCut packed = cut("cp", 2, [](Level& l) {
    l.layout = SequenceLayout::kZigzag;
    l.packed = PackedSequences{{0, 3, 8}, {}, {}, {}};
  });
  CHECK(infer(packed, {6, 6}) == 8);
  CHECK(refused(packed, {4, 4}) ==
        "E_SEQ_LAYOUT: the end of 'packed' is 8, but the ranks store 4, 4: it would be stored as 6 where 4 is found");
  CHECK(refused(packed, {6, 6}, 9) ==
        "E_SEQ_LAYOUT: the end of 'packed' is 8, but the length the checkpoint records is 9");
  DimCut sized = packed;
  sized.size = 9;
  CHECK(refused(sized, {6, 6}) == "E_SEQ_LAYOUT: 'size' is 9, but the end of 'packed' is 8");
  // Coordinates that should be alike and are not: no total would do.
  CHECK(refused(packed, {6, 5}).rfind("E_SHAPE: ", 0) == 0);
}

TEST_CASE("shards that imply no one length are refused") {
  CHECK(refused(cut("tp", 2), {3, 4}).rfind("E_SHAPE: the ranks store 3, 4: ", 0) == 0);
  CHECK(refused(cut("tp", 4, [](Level& l) { l.split = Split::kBalanced; }), {3, 2, 3, 2}) ==
        "E_SHAPE: the ranks store 3, 2, 3, 2: a length of 10 does not fit: it would be stored as 3 where 2 is found");
  CHECK(refused(cut("gtp", 2, [](Level& l) { l.pad_rows = 8; }), {4, 4}) ==
        "E_PAD: the ranks store 4, 4: nothing is left without the padding");
  CHECK(refused(cut("gtp", 2, [](Level& l) { l.pad_rows = 10; }), {4, 4}) ==
        "E_PAD: the ranks store 4, 4: nothing is left without the padding");
}

TEST_CASE("replicas must store the same length") {
  CHECK(refusal([] {
          infer_length(cut("tp", 2), Mesh({{"dp", 2}, {"tp", 2}}), std::vector<Index>{4, 4, 4, 5}, {});
        }) == "E_SHAPE: ranks 1 and 3 hold the same part, but store lengths 4 and 5");
}

TEST_CASE("ranks without the tensor tell nothing, and a part that nobody stores is named") {
  const Mesh mesh({{"pp", 2}, {"tp", 2}});
  CHECK(infer_length(cut("tp", 2), mesh, std::vector<Index>{4, 4, kAbsent, kAbsent}, {}) == 8);
  CHECK(infer_length(cut("tp", 2), mesh, std::vector<Index>{4, kAbsent, kAbsent, kAbsent}, {}) == 8);
  CHECK(refusal([&] {
          infer_length(cut("tp", 2, [](Level& l) { l.split = Split::kBalanced; }), mesh,
                       std::vector<Index>{4, kAbsent, kAbsent, kAbsent}, {});
        }).rfind("E_MISSING: ", 0) == 0);
  // Behind an even outer axis too: what nobody stores is not taken from the other coordinate.
  DimCut nested = cut("pp", 2);
  nested.levels.push_back(axis("tp", 2));
  CHECK(refusal([&] {
          infer_length(nested, mesh, std::vector<Index>{4, 4, kAbsent, kAbsent}, {});
        }).rfind("E_MISSING: ", 0) == 0);
}

TEST_CASE("a whole shape is inferred dim by dim, absent ranks left out") {
  const Mesh mesh({{"pp", 2}, {"tp", 2}});
  const TensorCut tensor{{cut("tp", 2), {}}, {true, true, false, false}};
  CHECK(infer_shape(tensor, mesh, std::vector<Shape>{{4, 3}, {4, 3}, {}, {}}, {}) == Shape{8, 3});
  CHECK(refusal([&] {
          infer_shape(tensor, mesh, std::vector<Shape>{{4, 3}, {4}, {}, {}}, {});
        }) == "E_SHAPE: rank 1 stores 1 dims, expected 2");
}
