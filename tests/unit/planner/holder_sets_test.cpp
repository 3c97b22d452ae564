#include "reshard/planner/holder_sets.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reshard/base/checked.hpp"
#include "support/cut_text.hpp"
#include "support/naive_oracle.hpp"
#include "support/random_layouts.hpp"

using namespace reshard;
using cut_text::cut;
using layout::Index;
using planner::HolderSets;
using random_layouts::Random;

namespace {

/// "2 at 10 in 0: 3x8/12 8x1/1": place in the piece, in the tensor, set; extents, strides in the piece and the tensor.
std::vector<std::string> boxes(const layout::TensorLayout& layout, Index rank, std::int64_t element_bytes, Index first,
                               Index bytes) {
  std::vector<std::string> out;
  HolderSets(layout).visit_boxes(rank, element_bytes, first, bytes, [&](const layout::CopyBox& box, std::size_t set) {
    std::string dims;
    for (const layout::CopyDim& dim : box.dims)
      dims += fmt::format(" {}x{}/{}", dim.extent, dim.source_stride, dim.logical_stride);
    out.push_back(fmt::format("{} at {} in {}:{}", box.source_offset, box.logical_offset, set, dims));
  });
  return out;
}

/// Every byte of a box: (place in the piece, place in the tensor).
std::vector<std::pair<Index, Index>> bytes_of(const layout::CopyBox& box) {
  std::vector<std::pair<Index, Index>> out = {{box.source_offset, box.logical_offset}};
  for (const layout::CopyDim& dim : box.dims) {
    std::vector<std::pair<Index, Index>> longer;
    for (const auto& [source, logical] : out)
      for (Index i = 0; i < dim.extent; ++i)
        longer.emplace_back(source + i * dim.source_stride, logical + i * dim.logical_stride);
    out = std::move(longer);
  }
  return out;
}

/// For every stored element of a rank, its row-major place in the tensor, or kPadding.
std::vector<Index> elements_of(const std::vector<std::vector<naive::Line>>& lines, const Shape& shape,
                               std::size_t rank) {
  std::vector<Index> out = {0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<Index> longer;
    for (const Index outer : out)
      for (const naive::Cell& cell : lines[d][rank])
        longer.push_back(outer == naive::kPadding || cell.global == naive::kPadding ? naive::kPadding
                                                                                    : outer * shape[d] + cell.global);
    out = std::move(longer);
  }
  return out;
}

}  // namespace

TEST_CASE("a row shard is one box, a column shard a box with a gap in the tensor") {
  const layout::Mesh mesh({{"tp", 2}});
  const layout::TensorLayout rows = layout::lay_out({4, 6}, {{cut("tp", 2), {}}, {}}, mesh);
  CHECK(boxes(rows, 1, 2, 0, 24) == std::vector<std::string>{"0 at 24 in 0: 24x1/1"});
  const layout::TensorLayout columns = layout::lay_out({4, 6}, {{{}, cut("tp", 2)}, {}}, mesh);
  CHECK(boxes(columns, 1, 2, 0, 24) == std::vector<std::string>{"0 at 6 in 0: 4x6/12 6x1/1"});
}

TEST_CASE("a piece that begins and ends inside elements and rows") {
  const layout::TensorLayout columns = layout::lay_out({4, 6}, {{{}, cut("tp", 2)}, {}}, layout::Mesh({{"tp", 2}}));
  // Stored rows of 6 bytes; bytes 3 to 20: half of element 1, element 2, rows 1 and 2, element 0, no more.
  CHECK(boxes(columns, 0, 2, 3, 17) == std::vector<std::string>{"0 at 3 in 0: 1x1/1", "1 at 4 in 0: 2x1/1",
                                                                "3 at 12 in 0: 2x6/12 6x1/1", "15 at 36 in 0: 2x1/1"});
}

TEST_CASE("a scalar is one set on every rank") {
  const layout::TensorLayout scalar = layout::lay_out({}, {{}, {}}, layout::Mesh({{"tp", 2}}));
  CHECK(HolderSets(scalar).sets_of(1) == std::vector<HolderSets::Set>{{}});
  CHECK(boxes(scalar, 1, 4, 0, 4) == std::vector<std::string>{"0 at 0 in 0: 4x1/1"});
}

TEST_CASE("a segment that is repeated is a set of both ranks") {
  layout::DimCut dim = cut("tp", 2);
  dim.levels[0].segments = {{4, {}, {}}, {2, 2, layout::Fallback::kRepeat}};
  const layout::TensorLayout layout = layout::lay_out({6}, {{dim}, {}}, layout::Mesh({{"tp", 2}}));
  const HolderSets sets(layout);
  CHECK(sets.sets_of(0) == std::vector<HolderSets::Set>{{0}, {2}});
  CHECK(sets.sets_of(1) == std::vector<HolderSets::Set>{{1}, {2}});
  CHECK(boxes(layout, 1, 1, 0, 4) == std::vector<std::string>{"0 at 2 in 0: 2x1/1", "2 at 4 in 1: 2x1/1"});
}

TEST_CASE("random shards: every true byte of a piece once, in its place, in the set of its holders") {
  Random random(20);
  int cases = 0;
  for (int i = 0; i < 600; ++i) {
    const random_layouts::Case c = random_layouts::draw(random, random.one_of(random_layouts::features()));
    const layout::Mesh mesh(c.source.axes, c.source.ranks);
    layout::TensorLayout layout;
    try {
      layout = layout::lay_out(c.shape, c.source.cut, mesh);
    } catch (const Error&) {
      continue;
    }
    if (!layout.fallen_back.empty()) continue;
    CAPTURE(random_layouts::describe(c));
    ++cases;
    std::vector<std::vector<naive::Line>> lines;
    for (std::size_t d = 0; d < c.shape.size(); ++d)
      lines.push_back(naive::lines_by_rank(naive::cut_dim(c.source.cut.dims[d], c.shape[d]), c.source.cut.dims[d],
                                           c.source.axes, c.source.ranks));
    const std::int64_t element_bytes = random.one_of(std::vector<std::int64_t>{1, 2, 4});
    const HolderSets sets(layout);
    std::map<Index, std::set<Index>> holders;  // by element
    std::map<HolderSets::Set, std::set<Index>> ranks_of_set;
    std::map<HolderSets::Set, std::set<Index>> elements_of_set;
    for (Index rank = 0; rank < layout.ranks; ++rank) {
      if (!layout.is_present(rank)) continue;
      const std::vector<Index> elements = elements_of(lines, c.shape, static_cast<std::size_t>(rank));
      for (const Index element : elements)
        if (element != naive::kPadding) holders[element].insert(rank);
      const auto stored = static_cast<Index>(elements.size()) * element_bytes;
      const Index first = random.between(0, stored);
      const Index end = random.between(first, stored);
      std::map<Index, Index> expected;  // byte of the piece -> byte of the tensor
      for (Index at = first; at < end; ++at) {
        const Index element = elements[static_cast<std::size_t>(at / element_bytes)];
        if (element != naive::kPadding) expected[at - first] = element * element_bytes + at % element_bytes;
      }
      const std::vector<HolderSets::Set> own = sets.sets_of(rank);
      for (const HolderSets::Set& set : own) ranks_of_set[set].insert(rank);
      std::map<Index, Index> found;
      std::size_t visited = 0;
      sets.visit_boxes(rank, element_bytes, first, end - first, [&](const layout::CopyBox& box, std::size_t set) {
        for (const auto& [source, logical] : bytes_of(box)) {
          found[source] = logical;
          ++visited;
          elements_of_set[own.at(set)].insert(logical / element_bytes);
        }
      });
      CHECK(found == expected);
      CHECK(visited == expected.size());
    }
    for (const auto& [set, elements] : elements_of_set)
      for (const Index element : elements) CHECK(holders[element] == ranks_of_set[set]);
  }
  CHECK(cases > 200);
}
