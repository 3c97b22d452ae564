#include "reshard/layout/sequence.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "reshard/layout/legal_sizes.hpp"
#include "support/cut_text.hpp"

using namespace reshard;
using namespace reshard::layout;
using cut_text::axis;
using cut_text::positions;
using cut_text::refusal;
using cut_text::text;

namespace {

DimCut sequence(SequenceLayout layout, Index cp, Index tp) {
  DimCut out = cut_text::cut("cp", cp, [&](Level& l) { l.layout = layout; });
  out.levels.push_back(axis("tp", tp));
  return out;
}

DimCut packed(SequenceLayout layout, Index cp, Index tp, std::vector<Index> cu_seqlens,
              std::vector<Index> padded = {}) {
  DimCut out = sequence(layout, cp, tp);
  out.levels[0].packed = PackedSequences{std::move(cu_seqlens), std::move(padded), {}, {}};
  return out;
}

// Every rank's runs, ranks by logical number cp * tp_size + tp.
std::vector<std::string> ranks(const DimCut& cut, Index length) {
  std::vector<std::string> out;
  for (const DimShard& shard : cut_dim_everywhere(cut, length)) out.push_back(text(shard));
  return out;
}

std::vector<std::string> position_lists(const DimCut& cut, Index length) {
  std::vector<std::string> out;
  for (const DimShard& shard : cut_dim_everywhere(cut, length)) out.push_back(positions(shard));
  return out;
}

using Lists = std::vector<std::string>;

constexpr auto kContiguous = SequenceLayout::kContiguous;
constexpr auto kZigzag = SequenceLayout::kZigzag;
constexpr auto kStriped = SequenceLayout::kStriped;

}  // namespace

TEST_CASE("sixteen tokens lie in dense layouts as the table says") {
  CHECK(ranks(sequence(kContiguous, 2, 1), 16) == Lists{"0-8", "8-16"});
  CHECK(ranks(sequence(kZigzag, 2, 1), 16) == Lists{"0-4 12-16", "4-12"});
  CHECK(ranks(sequence(kContiguous, 4, 1), 16) == Lists{"0-4", "4-8", "8-12", "12-16"});
  CHECK(ranks(sequence(kZigzag, 4, 1), 16) == Lists{"0-2 14-16", "2-4 12-14", "4-6 10-12", "6-10"});
  CHECK(ranks(sequence(kContiguous, 2, 2), 16) == Lists{"0-4", "4-8", "8-12", "12-16"});
  CHECK(ranks(sequence(kZigzag, 2, 2), 16) == Lists{"0-4", "12-16", "4-8", "8-12"});
  CHECK(ranks(sequence(kContiguous, 4, 2), 16) == Lists{"0-2", "2-4", "4-6", "6-8", "8-10", "10-12", "12-14", "14-16"});
  CHECK(ranks(sequence(kZigzag, 4, 2), 16) == Lists{"0-2", "14-16", "2-4", "12-14", "4-6", "10-12", "6-8", "8-10"});
}

TEST_CASE("striped blocks are dealt round-robin") {
  DimCut cut = sequence(kStriped, 2, 1);
  cut.levels[0].block = 2;
  CHECK(ranks(cut, 16) == Lists{"0-2 4-6 8-10 12-14", "2-4 6-8 10-12 14-16"});
  CHECK(refusal(cut, 18) ==
        "E_SEQ_LAYOUT: axis 'cp' of size 2 (striped) cannot cut 18 elements: not a multiple of 2 x 2 = 4");
}

TEST_CASE("an odd inner size may straddle the chunks of zigzag") {
  CHECK(ranks(sequence(kZigzag, 2, 3), 12) == Lists{"0-2", "2-3 9-10", "10-12", "3-5", "5-7", "7-9"});
}

TEST_CASE("packed sequences lie as the table says, with temporary padding inside the stored line") {
  const std::vector<Index> cu = {0, 3, 8};
  CHECK(position_lists(packed(kContiguous, 2, 1, cu), 8) == Lists{"0 1 2 3", "4 5 6 7"});
  CHECK(padded_lengths({cu, {}, {}, {}}, 2, 1) == std::vector<Index>{4, 8});
  CHECK(position_lists(packed(kZigzag, 2, 1, cu), 8) == Lists{"0 -1 3 4 -1 -1", "1 2 5 6 7 -1"});
  CHECK(padded_lengths({cu, {}, {}, {}}, 2, 4) == std::vector<Index>{4, 12});
  CHECK(position_lists(packed(kZigzag, 2, 4, cu), 8) ==
        Lists{"0 -1", "3 4", "5 -1", "-1 -1", "1 2", "6 7", "-1 -1", "-1 -1"});
  CHECK(ranks(packed(kZigzag, 2, 1, cu), 8) == Lists{"0-1 temporary 1 3-5 temporary 2", "1-3 5-8 temporary 1"});
}

TEST_CASE("physical padding rows are ordinary rows") {
  CHECK(position_lists(packed(kZigzag, 2, 1, {0, 3, 7}, {0, 4, 8}), 8) == Lists{"0 3 4 7", "1 2 5 6"});
}

TEST_CASE("an empty last sequence takes what the inner axis needs") {
  CHECK(padded_lengths({{0, 3, 16, 16}, {}, {}, {}}, 2, 4) == std::vector<Index>{4, 16, 4});
}

TEST_CASE("several inner axes are served together") {
  DimCut cut = packed(kZigzag, 2, 2, {0, 3, 8});
  cut.levels.push_back(axis("ep", 2));
  CHECK(stored_lengths(cut, 8) == std::vector<Index>(8, 2));
}

TEST_CASE("over one coordinate packed zigzag is the identity") {
  CHECK(position_lists(packed(kZigzag, 1, 1, {0, 3, 8}), 8) == Lists{"0 1 2 3 4 5 6 7"});
}

TEST_CASE("wrong packed metadata is named") {
  const auto refused = [](std::vector<Index> cu, std::vector<Index> padded, Index length) {
    return refusal(packed(kZigzag, 2, 1, std::move(cu), std::move(padded)), length);
  };
  CHECK(refused({0}, {}, 8) == "E_SEQ_LAYOUT: cu_seqlens has 1 entries, expected 2 or more");
  CHECK(refused({1, 8}, {}, 8) == "E_SEQ_LAYOUT: cu_seqlens starts at 1, expected 0");
  CHECK(refused({0, 5, 3, 8}, {}, 8) == "E_SEQ_LAYOUT: cu_seqlens decreases from 5 to 3 at entry 2");
  CHECK(refused({0, 3, 8}, {0, 8}, 8) == "E_SEQ_LAYOUT: cu_seqlens_padded has 2 entries, cu_seqlens has 3");
  CHECK(refused({0, 3, 8}, {0, 2, 8}, 8) ==
        "E_SEQ_LAYOUT: sequence 0 has 3 elements, but cu_seqlens_padded gives it only 2");
  CHECK(refused({0, 3, 8}, {}, 9) == "E_SEQ_LAYOUT: cu_seqlens ends at 8, but the sequence dim has length 9");
  CHECK(refused({0, 0}, {}, 0) == "E_SEQ_LAYOUT: cu_seqlens hold no element at all");
  CHECK(refused({0, 2147483646}, {}, 2147483646) ==
        "E_OVERFLOW: axis 'cp' of size 2: the padded sequences end at 2147483648, beyond the int32 positions of packed "
        "sequences");
}

TEST_CASE("forbidden padding refuses what would need it") {
  DimCut cut = packed(kZigzag, 2, 1, {0, 10, 18});
  cut.levels[0].packed_padding = PackedPadding::kForbid;
  CHECK(refusal(cut, 18) ==
        "E_SEQ_LAYOUT: axis 'cp' of size 2: sequence 0 has 10 elements, not a multiple of 2 x 2 = 4, and padding is "
        "forbidden; padding: temporary allows it");
  cut.levels[0].packed->cu_seqlens = {0, 8, 12};
  CHECK(refusal(cut, 12) == "accepted");
  cut.levels[1].axis_size = 4;
  CHECK(refusal(cut, 12) ==
        "E_SEQ_LAYOUT: axis 'cp' of size 2: each coordinate's 6 elements are not a multiple of the 4 that the "
        "axes behind it need, and padding is forbidden; padding: temporary allows it");
}

TEST_CASE("no other sizes are offered for pieces of sequences") {
  CHECK(legal_sizes_text(axis("cp", 2), 6, {}) == "; legal sizes of 'cp': 1, 2, 3, 6");
  CHECK(legal_sizes_text(sequence(SequenceLayout::kZigzag, 2, 1).levels[0], 12, {}).empty());
  CHECK(legal_sizes_text(packed(SequenceLayout::kContiguous, 2, 1, {0, 6}).levels[0], 6, {}).empty());
}
