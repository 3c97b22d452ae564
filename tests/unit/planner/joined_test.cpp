#include "reshard/planner/joined.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "support/cut_text.hpp"

using namespace reshard;
using cut_text::cut;
using layout::DimLayout;
using layout::Mesh;

namespace {

DimLayout over(const layout::DimCut& cut, layout::Index length) {
  std::vector<layout::Axis> axes;
  for (const layout::Level& level : cut.levels) axes.push_back({level.axis, level.axis_size});
  return layout::lay_out_dim(cut, length, Mesh(axes, {}));
}

/// "0-4 from 0@0 to 0@0*,2@3": a range, source parts and stored positions, target parts; * for the one that counts.
std::vector<std::string> joined(const DimLayout& source, const DimLayout& target) {
  std::vector<std::string> out;
  for (const planner::JoinedRange& range : planner::join_dim(planner::held_ranges(source), target)) {
    std::string line = range.is_padding() ? fmt::format("padding {} to ", range.length)
                                          : fmt::format("{}-{} from ", range.global, range.global + range.length);
    for (const planner::Holding& holding : range.sources) line += fmt::format("{}@{} ", holding.part, holding.stored);
    if (!range.is_padding()) line += "to ";
    for (const planner::TargetHolding& holding : range.targets)
      line += fmt::format("{}@{}{} ", holding.part, holding.stored, holding.canonical ? "*" : "");
    line.pop_back();
    out.push_back(line);
  }
  return out;
}

}  // namespace

TEST_CASE("a dim is cut wherever either side changes") {
  CHECK(joined(over(cut("tp", 2), 12), over(cut("tp", 3), 12)) ==
        std::vector<std::string>{"0-4 from 0@0 to 0@0*", "4-6 from 0@4 to 1@0*", "6-8 from 1@0 to 1@2*",
                                 "8-12 from 1@2 to 2@0*"});
}

TEST_CASE("a dim that neither side cuts is one range, one without elements is none") {
  CHECK(joined(over({}, 5), over({}, 5)) == std::vector<std::string>{"0-5 from 0@0 to 0@0*"});
  CHECK(joined(over({}, 0), over({}, 0)) == std::vector<std::string>{});
}

TEST_CASE("indices that only one side holds are left out") {
  const DimLayout whole = over(cut("tp", 3), 6);
  DimLayout gap = whole;
  gap.parts[1].runs.clear();
  CHECK(joined(gap, whole) == std::vector<std::string>{"0-2 from 0@0 to 0@0*", "4-6 from 2@0 to 2@0*"});
  CHECK(joined(whole, gap) == std::vector<std::string>{"0-2 from 0@0 to 0@0*", "4-6 from 2@0 to 2@0*"});
  DimLayout short_one = whole;
  short_one.parts[2].runs.clear();
  CHECK(joined(short_one, whole) == std::vector<std::string>{"0-2 from 0@0 to 0@0*", "2-4 from 1@0 to 1@0*"});
  CHECK(joined(whole, short_one) == std::vector<std::string>{"0-2 from 0@0 to 0@0*", "2-4 from 1@0 to 1@0*"});
}

TEST_CASE("of several target parts that hold a range the first one counts") {
  const DimLayout repeated = over(cut("tp", 4,
                                      [](layout::Level& level) {
                                        level.segments = {{4, {}, {}}, {2, 2, layout::Fallback::kRepeat}};
                                      }),
                                  6);
  CHECK(joined(over({}, 6), repeated) == std::vector<std::string>{"0-1 from 0@0 to 0@0*", "1-2 from 0@1 to 1@0*",
                                                                  "2-3 from 0@2 to 2@0*", "3-4 from 0@3 to 3@0*",
                                                                  "4-6 from 0@4 to 0@1* 1@1 2@1 3@1"});
}

TEST_CASE("padding that repeats a row is one more target of that row, for each place, and never counts") {
  layout::DimCut padded = cut("gtp", 2, [](layout::Level& level) { level.pad_to = 4; });
  padded.fill = layout::Fill::kLast;
  CHECK(joined(over({}, 6), over(padded, 6)) ==
        std::vector<std::string>{"0-4 from 0@0 to 0@0*", "4-5 from 0@4 to 1@0*", "5-6 from 0@5 to 1@1* 1@2 1@3"});
  padded.fill = layout::Fill::kZero;
  CHECK(joined(over({}, 6), over(padded, 6)) ==
        std::vector<std::string>{"0-4 from 0@0 to 0@0*", "4-6 from 0@4 to 1@0*"});
}

TEST_CASE("temporary padding comes last, without a source") {
  const DimLayout packed = over(cut("cp", 2,
                                    [](layout::Level& level) {
                                      level.layout = layout::SequenceLayout::kZigzag;
                                      level.packed = layout::PackedSequences{{0, 3}, {}, "", ""};
                                    }),
                                3);
  CHECK(joined(over({}, 3), packed) ==
        std::vector<std::string>{"0-1 from 0@0 to 0@0*", "1-3 from 0@1 to 1@0*", "padding 1 to 0@1"});
}
