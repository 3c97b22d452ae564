#include "reshard/planner/binding_pairs.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/cut_text.hpp"

using namespace reshard;
using namespace reshard::planner;
using cut_text::cut;

namespace {

/// From a dim of 8 cut over `source` ranks to the same dim cut over `target` ranks.
LayoutPair pair(Index source, Index target, const std::string& view = "") {
  const auto over = [](Index ranks) {
    return layout::lay_out({8}, {{cut("tp", ranks)}, {}}, layout::Mesh({{"tp", ranks}}));
  };
  return {over(source), over(target), {view, {cut("tp", target)}, {}}};
}

}  // namespace

TEST_CASE("equal pairs are one, pairs that differ in one side or in the target's placement are not") {
  LayoutPairs pairs;
  CHECK(pairs.index_of(pair(2, 4)) == 0);
  CHECK(pairs.index_of(pair(1, 4)) == 1);
  CHECK(pairs.index_of(pair(2, 8)) == 2);
  CHECK(pairs.index_of(pair(2, 4, "moe")) == 3);
  CHECK(pairs.index_of(pair(2, 8)) == 2);
  CHECK(pairs.index_of(pair(1, 4)) == 1);
  CHECK(pairs.index_of(pair(2, 4, "moe")) == 3);
  CHECK(pairs.index_of(pair(2, 4)) == 0);
  CHECK(pairs[1].source.ranks == 1);
  CHECK(pairs.take().size() == 4);
}
