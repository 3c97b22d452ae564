#include "reshard/layout/cut.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "reshard/layout/legal_sizes.hpp"
#include "reshard/layout/tensor_layout.hpp"
#include "support/cut_text.hpp"

using namespace reshard;
using namespace reshard::layout;
using cut_text::axis;
using cut_text::cut;
using cut_text::refusal;
using cut_text::text;

namespace {

// Stored length of every coordinate of a single axis.
std::vector<Index> lengths(const DimCut& cut, Index length) {
  return stored_lengths(cut, length);
}

}  // namespace

TEST_CASE("the blocks of a packed dim lie where the layout tables say") {
  DimCut dp_tp = cut("dp", 2);
  dp_tp.levels.push_back(axis("tp", 4));
  DimCut tp_dp = cut("tp", 4);
  tp_dp.levels.push_back(axis("dp", 2));
  CHECK(text(dp_tp, 16, {1, 2}) == "12-14");
  CHECK(text(tp_dp, 16, {2, 1}) == "10-12");
  CHECK(text(cut("tp", 2, [](Level& l) { l.stride = 3; }), 24, {1}) == "4-8 12-16 20-24");
  CHECK(text(cut("tp", 2,
                 [](Level& l) {
                   l.segments = {{12, {}, {}}, {4, {}, {}}, {4, {}, {}}};
                 }),
             20, {1}) == "6-12 14-16 18-20");
  const DimCut repeat = cut("tp", 16, [](Level& l) {
    l.unit = 128;
    l.fallback = Fallback::kRepeat;
  });
  CHECK(text(repeat, 1024, {5}) == "256-384");
  const DimCut balanced = cut("tp", 4, [](Level& l) { l.split = Split::kBalanced; });
  const DimCut chunk = cut("tp", 4, [](Level& l) { l.split = Split::kChunk; });
  CHECK(lengths(balanced, 10) == std::vector<Index>{3, 3, 2, 2});
  CHECK(text(balanced, 10, {2}) == "6-8");
  CHECK(lengths(cut("tp", 1, [](Level& l) { l.split = Split::kBalanced; }), 0) == std::vector<Index>{0});
  CHECK(lengths(chunk, 10) == std::vector<Index>{3, 3, 3, 1});
  CHECK(lengths(chunk, 5) == std::vector<Index>{2, 2, 1, 0});
  CHECK(text(chunk, 5, {3}) == "");
  const DimCut shares = cut("dp", 2, [](Level& l) {
    l.split = Split::kShares;
    l.shares = {1, 3};
  });
  CHECK(text(shares, 16, {0}) == "0-4");
  CHECK(text(shares, 16, {1}) == "4-16");
}

TEST_CASE("padding of the TP-local line follows the alignment table") {
  struct Row {
    Index d, g, align, padding, stored;
  };
  for (const Row& row : {Row{1160, 4, 16, 56, 304}, Row{1152, 4, 16, 0, 288}, Row{1152, 4, 128, 384, 384},
                         Row{776, 2, 16, 24, 400}, Row{12, 2, 4, 4, 8}, Row{10, 4, 3, 2, 3}}) {
    CAPTURE(row.d);
    const DimCut dim = cut("gtp", row.g, [&](Level& l) { l.pad_to = row.align; });
    Index padding = 0;
    for (const DimShard& shard : cut_dim_everywhere(dim, row.d)) {
      CHECK(shard.stored_length == row.stored);
      padding += shard.stored_length - shard.true_length();
    }
    CHECK(padding == row.padding);
  }
  const DimCut last_is_padding = cut("gtp", 4, [](Level& l) { l.pad_to = 128; });
  CHECK(text(last_is_padding, 1152, {3}) == "pad 384");
}

TEST_CASE("a padded inner axis cuts the joined blocks of the outer one") {
  DimCut dim = cut("tp", 2, [](Level& l) { l.stride = 2; });
  dim.levels.push_back(axis("gtp", 3));
  dim.levels[1].pad_rows = 1;
  CHECK(text(dim, 16, {0, 0}) == "0-3");
  CHECK(text(dim, 16, {0, 1}) == "3-4 8-10");
  CHECK(text(dim, 16, {0, 2}) == "10-12 pad 1");
  CHECK(text(dim, 16, {1, 2}) == "14-16 pad 1");
}

TEST_CASE("an axis inside a padded one cuts the stored line, padding included") {
  DimCut dim = cut("gtp", 2);
  dim.levels[0].pad_to = 4;
  dim.levels.push_back(axis("tp", 2));
  CHECK(text(dim, 9, {0, 1}) == "4-8");
  CHECK(text(dim, 9, {1, 0}) == "8-9 pad 3");
  CHECK(text(dim, 9, {1, 1}) == "pad 4");
}

TEST_CASE("a vocabulary is padded to a multiple of pad_total times the axis, also over one coordinate") {
  struct Row {
    Index vocabulary, tp, rows;
  };
  for (const Row& row : {Row{50257, 1, 50304}, Row{50257, 2, 50432}, Row{50257, 4, 50688}, Row{128256, 1, 128256},
                         Row{128256, 2, 128256}, Row{128256, 4, 128512}, Row{32000, 4, 32256}}) {
    DimCut dim = cut("tp", row.tp);
    dim.pad_total = 128;
    CHECK(stored_lengths(dim, row.vocabulary).front() * row.tp == row.rows);
  }
  DimCut dim = cut("tp", 4);
  dim.pad_total = 128;
  CHECK(text(dim, 32000, {3}) == "24192-32000 pad 256");
}

TEST_CASE("fill last copies the last row of the line that is padded") {
  DimCut dim = cut("tp", 2);
  dim.levels.push_back(axis("gtp", 2));
  dim.levels[1].pad_to = 4;
  dim.fill = Fill::kLast;
  CHECK(text(dim, 12, {0, 1}) == "4-6 pad 2 (copies 5)");
  CHECK(text(dim, 12, {1, 1}) == "10-12 pad 2 (copies 11)");
  dim.levels[1].pad_to.reset();
  dim.pad_total = 8;
  CHECK(text(dim, 12, {1, 1}) == "pad 4 (copies 11)");
}

TEST_CASE("a line without a true row is filled with zero") {
  DimCut dim = cut("tp", 2);
  dim.pad_total = 4;
  dim.levels.push_back(axis("gtp", 2));
  dim.levels[1].pad_to = 4;
  dim.fill = Fill::kLast;
  // 3 rows padded to 8: tp 1 has four copies of row 2, which are padding already, and pads them to 8 with zero.
  CHECK(text(dim, 3, {1, 0}) == "pad 4 (copies 2)");
  CHECK(text(dim, 3, {1, 1}) == "pad 4");
}

TEST_CASE("segments have their own unit and fallback") {
  const DimCut qkv = cut("tp", 4, [](Level& l) {
    l.segments = {{128, {}, {}}, {32, 16, Fallback::kRepeat}, {32, 16, Fallback::kRepeat}};
  });
  CHECK(text(qkv, 192, {0}) == "0-32 128-144 160-176");
  CHECK(text(qkv, 192, {1}) == "32-64 128-144 160-176");
  CHECK(text(qkv, 192, {3}) == "96-128 144-160 176-192");
}

TEST_CASE("the last unit of a balanced or chunked part may be short") {
  const DimCut balanced = cut("tp", 3, [](Level& l) {
    l.unit = 4;
    l.split = Split::kBalanced;
  });
  CHECK(lengths(balanced, 19) == std::vector<Index>{8, 8, 3});
  const DimCut segmented = cut("tp", 2, [](Level& l) {
    l.unit = 4;
    l.split = Split::kChunk;
    l.segments = {{10, {}, {}}, {6, {}, {}}};
  });
  CHECK(text(segmented, 16, {0}) == "0-8 10-14");
  CHECK(text(segmented, 16, {1}) == "8-10 14-16");
}

TEST_CASE("an axis of size 1 cuts nothing and pads nothing") {
  CHECK(text(cut("gtp", 1, [](Level& l) { l.pad_to = 16; }), 7, {0}) == "0-7");
  CHECK(text(cut("gtp", 1, [](Level& l) { l.pad_rows = 3; }), 7, {0}) == "0-7");
  CHECK(text(cut("cp", 1, [](Level& l) { l.layout = SequenceLayout::kZigzag; }), 7, {0}) == "0-7");
  const DimCut shares = cut("dp", 1, [](Level& l) {
    l.split = Split::kShares;
    l.shares = {1, 3};
  });
  CHECK(text(shares, 7, {0}) == "0-7");
  CHECK(refusal(cut("tp", 1,
                    [](Level& l) {
                      l.segments = {{4, {}, {}}};
                    }),
                7) == "E_SEGMENT_SUM: the segments of axis 'tp' sum to 4, expected 7, the length of the line they cut");
}

TEST_CASE("a dim of 2^40 elements is cut without counting them") {
  const Index huge = Index{1} << 40;
  DimCut dim = cut("tp", 1024, [](Level& l) { l.stride = 2; });
  dim.levels.push_back(axis("gtp", 2));
  dim.levels[1].pad_to = 16;
  CHECK(cut_dim(dim, huge, std::vector<Index>{1023, 1}) ==
        DimShard{{{huge - (Index{1} << 29), 0, Index{1} << 29}}, {}, Index{1} << 29});
  CHECK(refusal(cut("tp", 3), huge)
            .rfind("E_INDIVISIBLE: axis 'tp' of size 3 cannot cut the 1099511627776 elements", 0) == 0);
}

TEST_CASE("a short plan cannot make a dim of billions of runs") {
  const Index huge = Index{1} << 40;
  CHECK(refusal(cut("cp", 2, [](Level& l) { l.layout = SequenceLayout::kStriped; }), huge) ==
        "E_UNSUPPORTED: axis 'cp' of size 2 would cut a dim into 1099511627776 runs, more than 16777216");
  CHECK(refusal(cut("tp", 2, [&](Level& l) { l.stride = huge; }), 0).rfind("E_UNSUPPORTED: ", 0) == 0);
}

TEST_CASE("a product beyond 63 bits is refused, not wrapped") {
  const Index most = std::numeric_limits<Index>::max();
  CHECK(refusal(cut("tp", 4, [&](Level& l) { l.pad_to = most / 2; }), 10).rfind("E_OVERFLOW", 0) == 0);
  CHECK(refusal(cut("tp", 2,
                    [&](Level& l) {
                      l.segments = {{most, {}, {}}, {most, {}, {}}};
                    }),
                10)
            .rfind("E_OVERFLOW", 0) == 0);
}

TEST_CASE("a refusal says axis, numbers and the legal sizes in one line") {
  CHECK(refusal(cut("tp", 3), 10) ==
        "E_INDIVISIBLE: axis 'tp' of size 3 cannot cut the 10 elements: 10 is not a multiple of 3; legal sizes of "
        "'tp': 1, 2, 5, 10");
  CHECK(refusal(cut("tp", 3, [](Level& l) { l.unit = 128; }), 1024) ==
        "E_INDIVISIBLE: axis 'tp' of size 3 cannot cut the 1024 elements: 8 units of 128 is not a multiple of 3; legal "
        "sizes of 'tp': "
        "1, 2, 4, 8");
  CHECK(refusal(cut("tp", 2, [](Level& l) { l.unit = 128; }), 300) ==
        "E_INDIVISIBLE: the 300 elements that axis 'tp' cuts are no whole number of units of 128 (2 x 128 + 44); "
        "legal lengths are multiples of 128");
  CHECK(refusal(cut("tp", 1, [](Level& l) { l.unit = 64; }), 400) ==
        "E_INDIVISIBLE: the 400 elements that axis 'tp' cuts are no whole number of units of 64 (6 x 64 + 16); "
        "legal lengths are multiples of 64");
  CHECK(refusal(cut("tp", 4, [](Level& l) { l.split = Split::kBalanced; }), 3) ==
        "E_EMPTY_SHARD: axis 'tp' of size 4 cannot cut the 3 elements: 3 over 4 coordinates would leave some empty; "
        "legal sizes of "
        "'tp': 1, 2, 3");
  CHECK(refusal(cut("tp", 4,
                    [](Level& l) {
                      l.unit = 2;
                      l.fallback = Fallback::kRepeat;
                    }),
                6) ==
        "E_REPEAT: axis 'tp' of size 4 cannot cut the 6 elements: 4 is not a multiple of 3 units of 2, so the units "
        "cannot be "
        "repeated equally; legal sizes of 'tp': 1, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, ...");
  CHECK(refusal(cut("tp", 2, [](Level& l) { l.stride = 4; }), 20) ==
        "E_STRIDE: axis 'tp' of size 2 cannot cut 20 elements with stride 4: not a multiple of 4 x 2 = 8");
  CHECK(refusal(cut("gtp", 3, [](Level& l) { l.pad_rows = 1; }), 10) ==
        "E_PAD: axis 'gtp' of size 3 cannot cut 10 elements and 1 of padding: 11 is not a multiple of 3; "
        "pad_rows 2 would do");
  DimCut inner = cut("tp", 2);
  inner.levels.push_back(axis("gtp", 3));
  CHECK(refusal(inner, 1000) ==
        "E_INDIVISIBLE: axis 'gtp' of size 3 cannot cut the 500 elements: 500 is not a multiple of 3; legal sizes of "
        "'gtp': 1, 2, 4, "
        "5, 10, 20, 25, 50, 100, 125, 250, 500 (a line that 'tp' leaves)");
}

TEST_CASE("options that exclude each other are refused whatever the length") {
  const auto code = [](const std::function<void(Level&)>& set) {
    const auto refused = option_refusal(cut("tp", 2, set));
    return refused ? std::string(code_name(refused->code)) : "accepted";
  };
  CHECK(code([](Level& l) { l.segments = {{4, {}, {}}}, l.stride = 2; }) == "E_SCHEMA");
  CHECK(code([](Level& l) { l.pad_to = 2, l.pad_rows = 2; }) == "E_SCHEMA");
  CHECK(code([](Level& l) { l.pad_to = 2, l.unit = 2; }) == "E_SCHEMA");
  CHECK(code([](Level& l) { l.pad_rows = 2, l.split = Split::kChunk; }) == "E_SCHEMA");
  CHECK(code([](Level& l) { l.layout = SequenceLayout::kZigzag, l.stride = 2; }) == "E_SCHEMA");
  CHECK(code([](Level& l) { l.layout = SequenceLayout::kStriped, l.packed.emplace(); }) == "E_SCHEMA");
  CHECK(code([](Level& l) { l.unit = 0; }) == "E_SCHEMA");
  CHECK(code([](Level& l) { l.stride = 0; }) == "E_STRIDE");
  CHECK(code([](Level& l) { l.segments = {{0, {}, {}}}; }) == "E_SEGMENT_SUM");
  CHECK(code([](Level& l) { l.pad_rows = -1; }) == "E_PAD");
  CHECK(code([](Level& l) { l.split = Split::kShares, l.shares = {1, 2, 3}; }) == "E_OWNER");
  CHECK(code([](Level& l) { l.split = Split::kShares, l.shares = {0, 0}; }) == "E_SCHEMA");
  DimCut vocabulary = cut("tp", 2, [](Level& l) { l.unit = 2; });
  vocabulary.pad_total = 8;
  CHECK(option_refusal(vocabulary)->code == ErrorCode::kSchema);
}

TEST_CASE("numbers beyond 63 bits are refused with the axis they belong to") {
  static constexpr Index kHuge = Index{1} << 62;
  const auto text = [](const DimCut& dim) {
    const auto refused = option_refusal(dim);
    return refused ? fmt::format("{}: {}", code_name(refused->code), refused->message) : "accepted";
  };
  CHECK(text(cut("tp", 2, [](Level& l) { l.pad_to = kHuge; })) ==
        "E_OVERFLOW: axis 'tp' of size 2: pad_to 4611686018427387904 x 2 does not fit 63 bits");
  CHECK(text(cut("tp", 2, [](Level& l) { l.stride = kHuge; })).starts_with("E_OVERFLOW: axis 'tp' of size 2: stride "));
  CHECK(text(cut("tp", 2, [](Level& l) {
          l.layout = SequenceLayout::kStriped, l.block = kHuge;
        })).starts_with("E_OVERFLOW: axis 'tp' of size 2: block "));
  DimCut vocabulary = cut("tp", 2);
  vocabulary.pad_total = kHuge;
  CHECK(text(vocabulary).starts_with("E_OVERFLOW: axis 'tp' of size 2: pad_total "));
  CHECK(text(cut("tp", 1, [](Level& l) { l.pad_to = kHuge; })) == "accepted");
  // The multiple that axes behind a packed sequence need.
  DimCut packed = cut("cp", 2, [](Level& l) { l.layout = SequenceLayout::kZigzag, l.packed.emplace(); });
  packed.levels.push_back(axis("tp", 2));
  packed.levels[1].unit = kHuge;
  CHECK(text(packed).starts_with("E_OVERFLOW: "));

  const auto refused = [](DimCut dim, Index length) {
    std::vector<std::string> fallen_back;
    const auto found = resolve_fallbacks(dim, length, fallen_back);
    return found ? std::string(code_name(found->code)) : "accepted";
  };
  constexpr Index kLargest = std::numeric_limits<Index>::max();
  CHECK(refused(cut("tp", 2, [](Level& l) { l.pad_rows = kHuge; }), kHuge) == "E_OVERFLOW");
  CHECK(refused(cut("tp", 2, [](Level& l) { l.pad_rows = kHuge; }), 8) == "accepted");
  CHECK(refused(cut("tp", 2, [](Level& l) { l.pad_to = kHuge / 2; }), kLargest) == "E_OVERFLOW");
}

TEST_CASE("an axis that falls back is ignored on every rank, decided from the true size") {
  const Mesh mesh({{"tp", 3}, {"gtp", 2}});
  TensorCut tensor{{cut("tp", 3, [](Level& l) { l.fallback = Fallback::kReplicate; }), cut("gtp", 2)}, {}};
  const TensorLayout layout = lay_out({10, 4}, tensor, mesh);
  CHECK(layout.fallen_back == std::vector<std::string>{"tp"});
  CHECK(layout.dims[0].parts.size() == 1);
  CHECK(layout.dims[0].part_of_rank == std::vector<std::int32_t>(6, 0));
  CHECK(layout.stored_shape(5) == Shape{10, 2});
  CHECK(lay_out({12, 4}, tensor, mesh).fallen_back.empty());
}

TEST_CASE("an axis that fell back keeps its name, over one coordinate") {
  DimCut dim = cut("tp", 3, [](Level& l) { l.fallback = Fallback::kReplicate; });
  std::vector<std::string> fallen_back;
  CHECK(!resolve_fallbacks(dim, 10, fallen_back));
  REQUIRE(dim.levels.size() == 1);
  CHECK(dim.levels[0].axis == "tp");
  CHECK(dim.levels[0].axis_size == 1);
}

TEST_CASE("an inner axis falls back for all coordinates where one of its lines cannot be cut") {
  DimCut dim = cut("tp", 2, [](Level& l) { l.split = Split::kBalanced; });
  dim.levels.push_back(axis("gtp", 2));
  dim.levels[1].fallback = Fallback::kReplicate;
  const TensorLayout layout = lay_out({7}, {{dim}, {}}, Mesh({{"tp", 2}, {"gtp", 2}}));  // lines of 4 and 3
  CHECK(layout.fallen_back == std::vector<std::string>{"gtp"});
  CHECK(layout.stored_shape(0) == Shape{4});
  CHECK(layout.stored_shape(3) == Shape{3});
}

TEST_CASE("malformed options never fall back") {
  const DimCut wrong = cut("tp", 2, [](Level& l) {
    l.segments = {{4, {}, {}}, {4, {}, {}}};
    l.fallback = Fallback::kReplicate;
  });
  CHECK(refusal([&] { lay_out({10}, {{wrong}, {}}, Mesh({{"tp", 2}})); }).rfind("E_SEGMENT_SUM: dim 0: ", 0) == 0);
}

TEST_CASE("shares are for one size of the axis: no other is offered") {
  const std::string refused = refusal(cut("dp", 2,
                                          [](Level& l) {
                                            l.split = Split::kShares;
                                            l.shares = {1, 2};
                                          }),
                                      4);
  CHECK(refused.rfind("E_INDIVISIBLE: ", 0) == 0);
  CHECK(refused.find("legal sizes") == std::string::npos);
}

TEST_CASE("faults of all dims are reported together") {
  const TensorCut tensor{{cut("tp", 2), cut("dp", 2, [](Level& l) { l.stride = 3; })}, {}};
  try {
    lay_out({3, 4}, tensor, Mesh({{"dp", 2}, {"tp", 2}}));
    FAIL("accepted");
  } catch (const Error& error) {
    REQUIRE(error.issues().size() == 2);
    CHECK(error.issues()[0].code == ErrorCode::kIndivisible);
    CHECK(error.issues()[1].code == ErrorCode::kStride);
    CHECK(error.issues()[1].message.rfind("dim 1: axis 'dp' of size 2", 0) == 0);
  }
}

TEST_CASE("parts are numbered by the lowest rank that holds them, whatever the order of ranks") {
  const TensorLayout layout = lay_out({4}, {{cut("tp", 2)}, {}}, Mesh({{"dp", 2}, {"tp", 2}}, {3, 2, 1, 0}));
  REQUIRE(layout.dims[0].parts.size() == 2);
  CHECK(text(layout.dims[0].parts[0]) == "2-4");  // rank 0 is at position 3: tp 1
  CHECK(layout.dims[0].part_of_rank == std::vector<std::int32_t>{0, 1, 0, 1});
}

TEST_CASE("legal sizes are those an even cut accepts without cutting a block") {
  CHECK(legal_axis_sizes(cut("tp", 1, [](Level& l) { l.unit = 128; }).levels[0], 1024, 20) ==
        std::vector<Index>{1, 2, 4, 8});
  const std::vector<BlockNumbering> blocks = {BlockNumbering(1536, 128)};
  CHECK(legal_axis_sizes(axis("tp", 1), 1536, 24, blocks) == std::vector<Index>{1, 2, 3, 4, 6, 12});
  const Level fused = cut("tp", 1, [](Level& l) { l.segments = {{12, {}, {}}, {8, {}, {}}}; }).levels[0];
  CHECK(legal_axis_sizes(fused, 20, 24) == std::vector<Index>{1, 2, 4});
}
