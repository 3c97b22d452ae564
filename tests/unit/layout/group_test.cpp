#include "reshard/layout/group.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/cut_text.hpp"

using namespace reshard;
using namespace reshard::layout;
using cut_text::axis;
using cut_text::cut;
using cut_text::refusal;
using cut_text::text;

namespace {

const std::vector<GroupMember> kFp8 = {{"weight", {{"out", 1}, {"in", 1}}},
                                       {"weight_scale_inv", {{"out", 128}, {"in", 128}}}};
const std::vector<GroupMember> kLinear = {{"weight", {{"out", 1}, {"in", 1}}}, {"bias", {{"out", 1}}}};

// A group that a full checkpoint stores with these shapes.
GroupShape from_full(const std::vector<GroupMember>& members, const std::vector<Shape>& shapes,
                     const GroupCut& target = {}) {
  std::vector<StoredMember> stored;
  for (const Shape& shape : shapes) stored.push_back({{&shape, 1}, std::nullopt});
  return infer_group(members, {}, target, Mesh(), stored);
}

// A dim of a member on every rank.
std::vector<std::string> parts(const TensorLayout& layout, std::size_t dim) {
  std::vector<std::string> out;
  for (const std::int32_t part : layout.dims[dim].part_of_rank)
    out.push_back(text(layout.dims[dim].parts[static_cast<std::size_t>(part)]));
  return out;
}

using Lists = std::vector<std::string>;

}  // namespace

TEST_CASE("scales are cut with their rows, the last block short") {
  const GroupCut split{{{"out", cut("tp", 2, [](Level& l) { l.unit = 128, l.split = Split::kBalanced; })}}, {}};
  const GroupShape shape = from_full(kFp8, {{259, 130}, {3, 2}});
  const auto layouts = lay_out_group(kFp8, shape, split, Mesh({{"tp", 2}}));
  CHECK(parts(layouts[0], 0) == Lists{"0-256", "256-259"});
  CHECK(parts(layouts[1], 0) == Lists{"0-2", "2-3"});
  CHECK(parts(layouts[1], 1) == Lists{"0-2", "0-2"});
  CHECK(layouts[1].shape == Shape{3, 2});
}

TEST_CASE("a boundary inside a block refuses the whole group and names the legal sizes") {
  const GroupShape shape = from_full(kFp8, {{11008, 256}, {86, 2}});
  CHECK(refusal([&] {
          lay_out_group(kFp8, shape, {{{"out", cut("tp", 4)}}, {}}, Mesh({{"tp", 4}}));
        }) ==
        "E_UNIT_SPLIT: dim 'out' of member 'weight_scale_inv': a boundary at 2752 cuts a block of 128; boundaries must "
        "be multiples of "
        "128 or end the dim; legal sizes of 'tp': 1, 2, 43, 86");
}

TEST_CASE("the legal sizes of a dim that does not divide keep the blocks of every member whole") {
  const std::vector<GroupMember> members = {{"weight", {{"out", 1}}}, {"scale", {{"out", 128}}}};
  const GroupShape shape{{{"out", 1536, {}}}, {{{1536}, {false}}, {{12}, {false}}}};
  const std::string expected =
      "E_INDIVISIBLE: dim 'out': axis 'tp' of size 5 cannot cut the 1536 elements: 1536 is not a multiple of 5; legal "
      "sizes of 'tp': 1, 2, 3, 4, 6, 12";
  const GroupCut five{{{"out", cut("tp", 5)}}, {}};
  CHECK(refusal([&] { lay_out_group(members, shape, five, Mesh({{"tp", 5}})); }) == expected);

  const std::vector<GroupMember> scale = {members.back()};
  const std::vector<Shape> stored(5, Shape{3});
  GroupCut told = five;
  told.dims.front().cut.size = 1536;
  CHECK(refusal([&] {
          infer_group(scale, told, told, Mesh({{"tp", 5}}), std::vector<StoredMember>{{stored, {}}});
        }) == expected);
}

TEST_CASE("an inner axis may not cut a block either") {
  DimCut out = cut("tp", 2);
  out.levels.push_back(axis("gtp", 2));
  const GroupShape shape = from_full(kFp8, {{256, 128}, {2, 1}});
  CHECK(refusal([&] {
          lay_out_group(kFp8, shape, {{{"out", out}}, {}}, Mesh({{"gtp", 2}, {"tp", 2}}));
        }).rfind("E_UNIT_SPLIT: dim 'out' of member 'weight_scale_inv': a boundary at 64 cuts a block of 128", 0) == 0);
}

TEST_CASE("all members fall back together, and a dim without a cut is whole") {
  const DimCut out = cut("tp", 3, [](Level& l) { l.fallback = Fallback::kReplicate; });
  const GroupShape shape = from_full(kLinear, {{10, 4}, {10}});
  const auto layouts = lay_out_group(kLinear, shape, {{{"out", out}}, {}}, Mesh({{"tp", 3}}));
  CHECK(parts(layouts[0], 0) == Lists(3, "0-10"));
  CHECK(parts(layouts[1], 0) == Lists(3, "0-10"));
  CHECK(layouts[1].fallen_back == std::vector<std::string>{"tp"});
  const auto rows = lay_out_group(kLinear, shape, {{{"in", cut("tp", 2)}}, {}}, Mesh({{"tp", 2}}));
  CHECK(parts(rows[0], 1) == Lists{"0-2", "2-4"});
  CHECK(parts(rows[1], 0) == Lists(2, "0-10"));
  CHECK(refusal([&] {
          lay_out_group(kLinear, shape, {{{"out", cut("tp", 3)}}, {}}, Mesh({{"tp", 3}}));
        }) ==
        "E_INDIVISIBLE: dim 'out': axis 'tp' of size 3 cannot cut the 10 elements: 10 is not a multiple of 3; legal "
        "sizes of 'tp': 1, "
        "2, 5, 10");
}

TEST_CASE("sizes come from sharded members, the finest one first") {
  const std::vector<GroupMember> gptq = {
      {"qweight", {{"in", 8}, {"out", 1}}}, {"qzeros", {{"in", 32}, {"out", 8}}}, {"scales", {{"in", 32}, {"out", 1}}}};
  const Mesh mesh({{"tp", 2}});
  const GroupCut split{{{"in", cut("tp", 2)}}, {}};
  const std::vector<Shape> qweight(2, {4, 16});
  const std::vector<Shape> qzeros(2, {1, 2});
  const std::vector<Shape> scales(2, {1, 16});
  const std::vector<StoredMember> stored = {{qweight, {}}, {qzeros, {}}, {scales, {}}};
  const GroupShape shape = infer_group(gptq, split, {}, mesh, stored);
  CHECK(shape.of("in").size == 64);  // only blocks carry it: 8 words x 8
  CHECK(shape.of("out").size == 16);
  CHECK(shape.members[0].shape == Shape{8, 16});
  CHECK(shape.members[1].shape == Shape{2, 2});
}

TEST_CASE("a dim that only blocks carry may be told to end inside one") {
  const std::vector<GroupMember> words = {{"qweight", {{"in", 8}}}};
  const std::vector<Shape> stored = {{4}};
  const std::vector<StoredMember> found = {{stored, {}}};
  CHECK(infer_group(words, {}, {}, Mesh(), found).of("in").size == 32);
  DimCut told;
  told.size = 30;
  CHECK(infer_group(words, {}, {{{"in", told}}, {}}, Mesh(), found).of("in").size == 30);
  told.size = 40;
  CHECK(refusal([&] {
          infer_group(words, {}, {{{"in", told}}, {}}, Mesh(), found);
        }) ==
        "E_MEMBER_SIZE: dim 'in': member 'qweight': rank 0 stores 4 entries, expected 5 of the 40 elements of the dim");
}

TEST_CASE("a size that a member's elements or the record contradict is refused") {
  const std::vector<Shape> weight = {{16, 4}};
  const std::vector<Shape> bias = {{16}};
  DimCut told;
  told.size = 20;
  CHECK(refusal([&] {
          infer_group(kLinear, {{{"out", told}}, {}}, {}, Mesh(), std::vector<StoredMember>{{weight, {}}, {bias, {}}});
        }).rfind("E_SHAPE: dim 'out': 'size' is 20, but the ranks store 16", 0) == 0);
  told.size = 16;
  CHECK(refusal([&] {
          infer_group(kLinear, {{{"out", told}}, {}}, {}, Mesh(),
                      std::vector<StoredMember>{{weight, Shape{20, 4}}, {bias, {}}});
        }) == "E_SHAPE: dim 'out': 'size' is 16, but the length the checkpoint records is 20");
}

TEST_CASE("members that disagree on a dim are refused") {
  CHECK(refusal([] {
          from_full(kLinear, {{10, 4}, {9}});
        }) == "E_MEMBER_SIZE: dim 'out': on rank 0 member 'weight' stores 10, but member 'bias' stores 9");
  CHECK(refusal([] {
          from_full(kFp8, {{256, 128}, {3, 1}});
        }) ==
        "E_MEMBER_SIZE: dim 'out': member 'weight_scale_inv': rank 0 stores 3 entries, expected 2 of the 256 elements "
        "of the dim");
  CHECK(refusal([] {
          from_full(kLinear, {{10, 4}, {10, 1}});
        }) == "E_MEMBER_SIZE: member 'bias' has 2 dims on rank 0, expected 1");
}

TEST_CASE("a cut of a dim that no member has is refused") {
  CHECK(refusal([] {
          from_full(kLinear, {{10, 4}, {10}}, {{{"rows", cut("tp", 2)}}, {}});
        }) == "E_DIM_RANGE: dim 'rows' is no dim of any member");
}

TEST_CASE("block numbering restarts in each segment where the stored size says so") {
  const std::vector<GroupMember> fused = {{"weight", {{"out", 1}}}, {"scale", {{"out", 4}}}};
  const GroupCut split{{{"out", cut("tp", 2,
                                    [](Level& l) {
                                      l.unit = 4, l.split = Split::kBalanced, l.segments = {{6, {}, {}}, {10, {}, {}}};
                                    })}},
                       {}};
  const GroupShape anew = from_full(fused, {{16}, {5}}, split);
  CHECK(anew.members[1].restarts == std::vector<bool>{true});
  const auto layouts = lay_out_group(fused, anew, split, Mesh({{"tp", 2}}));
  CHECK(parts(layouts[0], 0) == Lists{"0-4 6-14", "4-6 14-16"});
  CHECK(parts(layouts[1], 0) == Lists{"0-1 2-4", "1-2 4-5"});
  // Through the dim the same cut would split a block.
  const GroupShape through = from_full(fused, {{16}, {4}}, split);
  CHECK(through.members[1].restarts == std::vector<bool>{false});
  CHECK(refusal([&] { lay_out_group(fused, through, split, Mesh({{"tp", 2}})); }).rfind("E_UNIT_SPLIT: ", 0) == 0);
  // A full target keeps the numbering: its five blocks are the same five.
  CHECK(parts(lay_out_group(fused, anew, {}, Mesh())[1], 0) == Lists{"0-5"});
}

TEST_CASE("numbering that may be read two ways of one size is refused") {
  const std::vector<GroupMember> fused = {{"weight", {{"out", 1}}}, {"scale", {{"out", 64}}}};
  const GroupCut split{{{"out", cut("tp", 1, [](Level& l) { l.segments = {{100, {}, {}}, {100, {}, {}}}; })}}, {}};
  CHECK(refusal([&] {
          from_full(fused, {{200}, {4}}, split);
        }) ==
        "E_MEMBER_SIZE: dim 'out': member 'scale': 4 blocks of 64 may be numbered through the dim of 200 or anew in "
        "each segment of "
        "100, 100, which differ");
}

TEST_CASE("a block member of a padded dim stores whole blocks, those of padding only as padding") {
  DimCut out = cut("tp", 2);
  out.levels.push_back(axis("gtp", 2));
  out.levels[1].pad_to = 128;
  out.size = 768;
  const GroupCut split{{{"out", out}}, {}};
  const Mesh mesh({{"tp", 2}, {"gtp", 2}});
  const std::vector<GroupMember> members = {{"weight", {{"out", 1}}}, {"scale", {{"out", 128}}}};
  const auto layouts = lay_out_group(members, from_full(members, {{768}, {6}}), split, mesh);
  CHECK(parts(layouts[0], 0) == Lists{"0-256", "256-384 pad 128", "384-640", "640-768 pad 128"});
  CHECK(parts(layouts[1], 0) == Lists{"0-2", "2-3 pad 1", "3-5", "5-6 pad 1"});
}

TEST_CASE("a member on its own is cut as in its group") {
  const GroupCut split{{{"out", cut("tp", 2,
                                    [](Level& l) {
                                      l.unit = 256, l.segments = {{1024, {}, {}}, {512, {}, Fallback::kRepeat}};
                                    })}},
                       {}};
  const GroupShape shape = from_full(kFp8, {{1536, 256}, {12, 2}}, split);
  const auto alone = standalone_cut(kFp8[1], shape.members[1], shape, split, Mesh({{"tp", 2}}));
  REQUIRE(alone.size() == 2);
  CHECK(alone[0].levels[0].segments == std::vector<Segment>{{8, 2, {}}, {4, 2, Fallback::kRepeat}});
  CHECK(alone[1].levels.empty());
  CHECK(standalone_cut(kFp8[0], shape.members[0], shape, split, Mesh({{"tp", 2}}))[0] == split.dims[0].cut);
}

TEST_CASE("blocks have a cut of their own also where units are no whole number of them") {
  const std::vector<GroupMember> members = {{"weight", {{"out", 1}}}, {"scale", {{"out", 2}}}};
  const auto alone = [&](Index length, const DimCut& dim, const std::vector<Axis>& axes = {{"tp", 2}}) {
    const GroupCut whole{{{"out", dim}}, {}};
    const GroupShape shape = from_full(members, {{length}, {(length + 1) / 2}}, whole);
    const DimCut out = standalone_cut(members[1], shape.members[1], shape, whole, Mesh(axes)).at(0);
    TensorCut tensor;
    tensor.dims = {out};
    CHECK(lay_out(shape.members[1].shape, tensor, Mesh(axes)).dims ==
          lay_out_group(members, shape, whole, Mesh(axes)).at(1).dims);
    return out;
  };
  // Units of 4 elements are units of 2 blocks, also where those of 4 blocks would be cut alike.
  CHECK(alone(16, cut("tp", 2, [](Level& l) { l.unit = 4; })).levels.at(0).unit == 2);
  // 9 elements are 6 and 3; 5 blocks are 3 and 2.
  const DimCut shares = alone(9, cut("tp", 2, [](Level& l) {
                                l.split = Split::kShares;
                                l.shares = {2, 1};
                              }));
  CHECK(shares.levels.at(0).shares == std::vector<Index>{1, 1});
  CHECK(shares.levels.at(0).unit == 3);
  // 3 units of 5 are 10 and 5 elements; 8 blocks are 5 and 3.
  for (const Split split : {Split::kBalanced, Split::kChunk}) {
    const DimCut units = alone(15, cut("tp", 2, [&](Level& l) {
                                 l.unit = 5;
                                 l.split = split;
                               }));
    CHECK(units.levels.at(0).split == split);
    CHECK(units.levels.at(0).unit == 5);
  }
  // Parts of 9 and 12 elements in shares of 2 to 1: 6 + 8 and 3 + 4 elements, 3 + 4 and 2 + 2 blocks.
  const DimCut parts = alone(21, cut("tp", 2, [](Level& l) {
                               l.segments = {{12, {}, {}}, {9, {}, {}}};
                               l.split = Split::kShares;
                               l.shares = {2, 1};
                             }));
  CHECK(parts.levels.at(0).segments == std::vector<Segment>{{6, 4, {}}, {5, 3, {}}});
  CHECK(parts.levels.at(0).shares == std::vector<Index>{1, 1});
  // 3 elements are padded to 2 parts of 8, each of them to 3 parts of 3: 4 blocks, and 3 parts of 2. Zeros are zeros,
  // whichever level adds them.
  DimCut padded = cut("tp", 2);
  padded.pad_total = 8;
  padded.levels.push_back(axis("gtp", 3));
  padded.levels.back().pad_to = 1;
  const DimCut in_blocks = alone(3, padded, {{"tp", 2}, {"gtp", 3}});
  CHECK(in_blocks.pad_total == 4);
  CHECK(in_blocks.levels.at(1).pad_rows == 2);
}

TEST_CASE("packed sequences of whole blocks are packed sequences of blocks") {
  const std::vector<GroupMember> members = {{"kv", {{"s", 1}}}, {"kv_scale", {{"s", 4}}}};
  const auto packed = [](std::vector<Index> cu_seqlens, Index tp) {
    DimCut out = cut("cp", 2, [&](Level& l) {
      l.layout = SequenceLayout::kZigzag;
      l.packed = PackedSequences{std::move(cu_seqlens), {}, {}, {}};
    });
    out.pad_value = 1;
    out.levels.push_back(axis("tp", tp));
    return out;
  };
  const auto alone = [&](Index length, const DimCut& dim) {
    const GroupCut whole{{{"s", dim}}, {}};
    const GroupShape shape = from_full(members, {{length}, {length / 4}}, whole);
    return standalone_cut(members[1], shape.members[1], shape, whole,
                          Mesh({{"cp", 2}, {"tp", dim.levels[1].axis_size}}))
        .at(0);
  };
  const DimCut blocks = alone(48, packed({0, 16, 48}, 2));
  CHECK(blocks.levels.at(0).packed->cu_seqlens == std::vector<Index>{0, 4, 12});
  CHECK(blocks.levels.at(0).layout == SequenceLayout::kZigzag);
  CHECK(blocks.pad_value == 1);
  // Contiguous pieces of what is packed are pieces of a line.
  DimCut contiguous = packed({0, 20, 48}, 1);
  contiguous.levels[0].layout = SequenceLayout::kContiguous;
  CHECK(alone(48, contiguous).levels.at(0) == axis("cp", 2));
}

TEST_CASE("blocks that no cut of one tensor says are refused with what would do") {
  const std::vector<GroupMember> members = {{"weight", {{"out", 1}}}, {"scale", {{"out", 2}}}};
  const auto refused = [&](Index length, Index blocks, const DimCut& dim, const std::vector<Axis>& axes) {
    const GroupCut whole{{{"out", dim}}, {}};
    return refusal([&] {
      const GroupShape shape = from_full(members, {{length}, {blocks}}, whole);
      lay_out_group(members, shape, whole, Mesh(axes));
      standalone_cut(members[1], shape.members[1], shape, whole, Mesh(axes));
    });
  };
  const std::string head =
      "E_UNSUPPORTED: dim 'out' of member 'scale': its blocks of 2 have no cut of their own, which the manifest would "
      "need: ";
  // One sequence of a block: each of 2 coordinates stores 6 elements for the 3 behind it to share, one block each; a
  // sequence of one block would store 2 blocks in 3 times 2.
  DimCut packed = cut("cp", 2, [](Level& l) {
    l.layout = SequenceLayout::kZigzag;
    l.packed = PackedSequences{{0, 2}, {}, {}, {}};
  });
  packed.levels.push_back(axis("tp", 3));
  CHECK(refused(2, 1, packed, {{"cp", 2}, {"tp", 3}}) ==
        head +
            "axis 'cp' deals out chunks of packed sequences that are no whole number of blocks; make every sequence a "
            "multiple of 2 x 2 x 2 = 8, or leave this dim whole");
  // Lines of 4 and 2 elements, padded to 10 and 8: 5 and 4 for each coordinate, so 3 and 2 blocks.
  DimCut padded = cut("tp", 2, [](Level& l) {
    l.unit = 2;
    l.split = Split::kBalanced;
  });
  padded.levels.push_back(axis("gtp", 2));
  padded.levels[1].pad_rows = 6;
  CHECK(refused(6, 3, padded, {{"tp", 2}, {"gtp", 2}}) ==
        head +
            "axis 'gtp' pads lines so that they store different numbers of blocks; give it `pad_to`, a multiple of 2, "
            "in place of `pad_rows`, or segments that are multiples of 2");
  // Parts of 9 + 2 + 5 elements are 5 + 1 + 3 blocks: 8 elements of padded pieces hold 4, 4 and 1 with padding.
  DimCut parts = cut("tp", 1, [](Level& l) { l.segments = {{9, {}, {}}, {2, {}, {}}, {5, {}, {}}}; });
  parts.levels.push_back(axis("gtp", 3));
  parts.levels[1].pad_to = 4;
  CHECK(refused(16, 9, parts, {{"tp", 1}, {"gtp", 3}}) ==
        head +
            "equal pieces of fused parts that are no whole number of blocks hold different numbers of them; make the "
            "segments multiples of 2, or leave this dim whole");
}

TEST_CASE("padding that hides how blocks are numbered is refused") {
  const std::vector<GroupMember> members = {{"weight", {{"out", 1}}}, {"scale", {{"out", 3}}}};
  // Parts of 2 and 1 elements are one block of 3, or two; padded to 8 over 2 coordinates either is stored as 2 and 2.
  DimCut parts = cut("tp", 1, [](Level& l) { l.segments = {{2, {}, {}}, {1, {}, {}}}; });
  parts.levels.push_back(axis("gtp", 2));
  parts.levels[1].pad_to = 4;
  const GroupCut source{{{"out", parts}}, {}};
  const Mesh mesh({{"tp", 1}, {"gtp", 2}});
  const std::vector<Shape> weight = {{4}, {4}};
  const std::vector<Shape> scale = {{2}, {2}};
  const auto infer = [&](std::optional<Shape> recorded) {
    return infer_group(members, source, {}, mesh, std::vector<StoredMember>{{weight, Shape{3}}, {scale, recorded}});
  };
  CHECK(refusal([&] { infer({}); }) ==
        "E_MEMBER_SIZE: dim 'out': member 'scale': with their padding, blocks of 3 numbered through the dim of 3 and "
        "anew in each segment of 2, 1 are stored alike; make the segments multiples of 3");
  CHECK(infer(Shape{1}).members[1].restarts == std::vector<bool>{false});
  CHECK(infer(Shape{2}).members[1].restarts == std::vector<bool>{true});
}
