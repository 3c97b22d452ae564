// Random groups against blocks counted element by element: member layouts, inferred sizes, cuts of members on their
// own.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/layout/group.hpp"
#include "support/naive_blocks.hpp"
#include "support/naive_oracle.hpp"
#include "support/random_layouts.hpp"

using namespace reshard;
using namespace reshard::layout;
using random_layouts::Random;

namespace {

constexpr int kCases = 3000;

naive::Line cells(const DimShard& shard) {
  naive::Line out(static_cast<std::size_t>(shard.stored_length));
  for (const Run& run : shard.runs)
    for (Index i = 0; i < run.length; ++i) out[static_cast<std::size_t>(run.stored + i)].global = run.global + i;
  for (const Pad& pad : shard.pads)
    for (Index i = 0; i < pad.length; ++i)
      out[static_cast<std::size_t>(pad.stored + i)] = {naive::kPadding, pad.copy_of.value_or(naive::kPadding),
                                                       pad.temporary};
  return out;
}

}  // namespace

TEST_CASE("group members are cut by one partition, as blocks counted one by one say") {
  const char* given = std::getenv("RESHARD_TEST_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 20260902;
  Random random(seed);
  std::map<std::string, int> seen;
  for (int i = 0; i < kCases;) {
    // One cut dim, carried by elements and by blocks of k; a dim that stays whole beside it.
    const Index k = random.one_of<Index>({2, 3, 4});
    const Index steps = random.between(1, 12);
    std::vector<Axis> axes = {{"tp", random.between(1, 4)}};
    if (random.chance(40)) axes.push_back({"gtp", random.between(1, 3)});
    std::set<std::string> features;
    Index length = steps * k;
    const bool in_steps = random.chance(70);
    DimCut cut = random_layouts::draw_dim(random, in_steps ? steps : length, axes, "none", features);
    if (in_steps) cut = random_layouts::in_steps_of(std::move(cut), k);
    const bool is_told = !cut.levels.front().segments.empty() || cut.levels.front().packed;
    if (!is_told && random.chance(25)) length -= random.between(0, k - 1);
    if (random.chance(12)) {
      // Segments that need not be whole blocks: over one coordinate, or in units that may be short at a segment's end.
      axes = {{"tp", random.between(1, 2)}};
      cut = {};
      Level& level = cut.levels.emplace_back();
      level.axis = "tp";
      level.axis_size = axes.front().size;
      for (Index s = random.between(2, 3); s > 0; --s) level.segments.push_back({random.between(1, 5 * k), {}, {}});
      if (level.axis_size > 1) {
        level.unit = k;
        level.split = Split::kBalanced;
      }
    }
    std::vector<Index> segments;
    for (const Segment& segment : cut.levels.front().segments) segments.push_back(segment.size);
    if (!segments.empty()) {
      length = 0;
      for (const Index segment : segments) length += segment;
    }
    const Mesh mesh(axes);
    const std::string text =
        fmt::format("seed {} case {}: length {} in blocks of {}{}", seed, i, length, k, random_layouts::describe(cut));
    CAPTURE(text);

    const naive::CutDim elements = naive::cut_dim(cut, length);
    const std::vector<Index> through = naive::number_blocks(length, k, {});
    const std::vector<Index> anew = naive::number_blocks(length, k, segments);
    const bool differ = through != anew;
    const bool restarts = differ && (random.chance(50) || through.back() == anew.back());
    const std::vector<Index>& number = restarts ? anew : through;
    const std::vector<GroupMember> members = {{"weight", {{"out", 1}, {"in", 1}}}, {"scale", {{"out", k}, {"", 1}}}};
    GroupCut group_cut;
    group_cut.dims = {{"out", cut}};
    GroupShape shape;
    shape.dims = {{"out", length, segments}, {"in", 5, {}}};
    shape.members = {{{length, 5}, {false, false}}, {{number.empty() ? 0 : number.back() + 1, 7}, {restarts, false}}};

    if (!elements.faults.empty()) {
      ++seen["refused"];
      CHECK_THROWS_AS(lay_out_group(members, shape, group_cut, mesh), Error);
      continue;
    }
    std::vector<naive::Line> expected;
    bool split = false;
    bool short_padding = false;
    for (const naive::Line& line : elements.lines) {
      const auto blocks = naive::to_blocks(line, number, k);
      split = split || !blocks;
      if (blocks &&
          std::any_of(line.begin(), line.end(), [](const naive::Cell& c) { return c.global == naive::kPadding; }))
        short_padding =
            short_padding || static_cast<Index>(blocks->size()) != (static_cast<Index>(line.size()) + k - 1) / k;
      expected.push_back(blocks.value_or(naive::Line{}));
    }
    if (split || short_padding) {
      ++seen[split ? "a block is cut" : "padding is no whole block"];
      std::set<ErrorCode> codes;
      try {
        lay_out_group(members, shape, group_cut, mesh);
      } catch (const Error& error) {
        for (const Issue& issue : error.issues()) codes.insert(issue.code);
      }
      CHECK(codes.size() == 1);
      CHECK((codes.contains(ErrorCode::kUnitSplit) ? split : short_padding));
      continue;
    }
    const std::vector<TensorLayout> layouts = lay_out_group(members, shape, group_cut, mesh);
    for (Index rank = 0; rank < mesh.size(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const auto weight = static_cast<std::size_t>(layouts[0].dims[0].part_of_rank[r]);
      const auto scale = static_cast<std::size_t>(layouts[1].dims[0].part_of_rank[r]);
      // Ranks are row-major over the axes, as lines are over the levels.
      CHECK(cells(layouts[0].dims[0].parts[weight]) == elements.lines[r]);
      CHECK(cells(layouts[1].dims[0].parts[scale]) == expected[r]);
    }

    // A member on its own.
    try {
      const std::vector<DimCut> alone = standalone_cut(members[1], shape.members[1], shape, group_cut, mesh);
      TensorCut tensor;
      tensor.dims = alone;
      const TensorLayout layout = lay_out(shape.members[1].shape, tensor, mesh);
      CHECK(layout.dims == layouts[1].dims);
      ++seen["recorded alone"];
    } catch (const Error& error) {
      // Only what no cut of a single tensor says: chunks of packed sequences, pieces of parts or padding that are no
      // whole blocks.
      CHECK(error.issues().front().code == ErrorCode::kUnsupported);
      const bool has_packed = std::any_of(cut.levels.begin(), cut.levels.end(),
                                          [](const Level& level) { return level.packed.has_value(); });
      const bool has_pad_rows = std::any_of(cut.levels.begin(), cut.levels.end(),
                                            [](const Level& level) { return level.pad_rows.has_value(); });
      CHECK((has_packed || has_pad_rows || restarts));
      ++seen["not recorded alone"];
    }

    // Back from what is stored.
    std::vector<std::vector<Shape>> stored(2);
    for (Index rank = 0; rank < mesh.size(); ++rank)
      for (std::size_t m = 0; m < 2; ++m) stored[m].push_back(layouts[m].stored_shape(rank));
    std::vector<StoredMember> found = {{stored[0], shape.members[0].shape}, {stored[1], std::nullopt}};
    // Both readings have as many blocks, or with their padding store as many on every rank.
    const auto stored_blocks = [&](const std::vector<Index>& numbers) {
      std::vector<std::size_t> out;
      for (const naive::Line& line : elements.lines) {
        const auto blocks = naive::to_blocks(line, numbers, k);
        if (!blocks) return std::vector<std::size_t>();
        out.push_back(blocks->size());
      }
      return out;
    };
    if (differ && (through.back() == anew.back() || stored_blocks(through) == stored_blocks(anew))) {
      ++seen["ambiguous numbering"];
      CHECK_THROWS_AS(infer_group(members, group_cut, {}, mesh, found), Error);
    } else {
      const GroupShape inferred = infer_group(members, group_cut, {}, mesh, found);
      CHECK(inferred.of("out").size == length);
      CHECK(inferred.members[1].shape == shape.members[1].shape);
      CHECK(inferred.members[1].restarts == shape.members[1].restarts);
      if (restarts) ++seen["numbering restarts"];
    }
    for (const std::string& feature : features) ++seen[feature];
    ++i;
  }
  for (const auto& [what, count] : seen) MESSAGE(what, ": ", count);
  CHECK(seen["not recorded alone"] < kCases / 300);
  for (const char* what : {"recorded alone", "a block is cut", "pad_to", "balanced", "segments", "zigzag", "packed"})
    CHECK(seen[what] > kCases / 50);
  CHECK(seen["numbering restarts"] > 10);
  CHECK(seen["ambiguous numbering"] > 10);
}
