// Random layouts against the naive oracle. RESHARD_TEST_SEED sets the seed; a failing case is printed with it.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/layout/tensor_layout.hpp"
#include "reshard/planner/readers.hpp"
#include "reshard/planner/transfers.hpp"
#include "support/naive_oracle.hpp"
#include "support/random_layouts.hpp"

using namespace reshard;
using layout::Index;
using layout::Mesh;
using layout::TensorLayout;
using random_layouts::Case;
using random_layouts::Random;
using random_layouts::Side;

namespace {

constexpr int kCases = 4000;

std::uint64_t seed() {
  const char* given = std::getenv("RESHARD_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 20260901;
}

// One side as the oracle sees it.
struct NaiveSide {
  std::vector<std::vector<naive::Line>> lines;  // by dim, rank
  std::set<std::string> ignored;
  std::set<ErrorCode> faults;
};

NaiveSide naive_side(const Shape& shape, const Side& side) {
  NaiveSide out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const naive::CutDim dim = naive::cut_dim(side.cut.dims[d], shape[d]);
    out.faults.insert(dim.faults.begin(), dim.faults.end());
    out.ignored.insert(dim.ignored.begin(), dim.ignored.end());
    if (dim.faults.empty()) out.lines.push_back(naive::lines_by_rank(dim, side.cut.dims[d], side.axes, side.ranks));
  }
  return out;
}

// The codes of all issues of a refusal; empty where accepted.
template <typename Work>
std::set<ErrorCode> codes(Work work) {
  std::set<ErrorCode> out;
  try {
    work();
  } catch (const Error& error) {
    for (const Issue& issue : error.issues()) out.insert(issue.code);
  }
  return out;
}

// The cells of a shard; the runs and pads must tile it, each as long as can be.
naive::Line cells(const layout::DimShard& shard) {
  naive::Line out(static_cast<std::size_t>(shard.stored_length));
  Index covered = 0;
  std::vector<bool> seen(out.size(), false);
  const auto put = [&](Index stored, const naive::Cell& cell) {
    const auto i = static_cast<std::size_t>(stored);
    REQUIRE(i < out.size());
    REQUIRE(!seen[i]);
    seen[i] = true;
    out[i] = cell;
    ++covered;
  };
  for (std::size_t i = 0; i < shard.runs.size(); ++i) {
    const layout::Run& run = shard.runs[i];
    REQUIRE(run.length > 0);
    if (i > 0) {
      const layout::Run& last = shard.runs[i - 1];
      CHECK(last.stored < run.stored);
      CHECK(!(last.stored + last.length == run.stored && last.global + last.length == run.global));
    }
    for (Index k = 0; k < run.length; ++k) put(run.stored + k, {run.global + k, naive::kPadding, false});
  }
  for (const layout::Pad& pad : shard.pads)
    for (Index k = 0; k < pad.length; ++k)
      put(pad.stored + k, {naive::kPadding, pad.copy_of.value_or(naive::kPadding), pad.temporary});
  CHECK(covered == shard.stored_length);
  return out;
}

void check_layout(const TensorLayout& layout, const NaiveSide& expected) {
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    const layout::DimLayout& dim = layout.dims[d];
    const std::set<layout::DimShard> distinct(dim.parts.begin(), dim.parts.end());
    CHECK(distinct.size() == dim.parts.size());
    for (std::size_t rank = 0; rank < expected.lines[d].size(); ++rank)
      CHECK(cells(dim.shard_of(static_cast<layout::Index>(rank))) == expected.lines[d][rank]);
  }
  CHECK(std::set<std::string>(layout.fallen_back.begin(), layout.fallen_back.end()) == expected.ignored);
}

// A value that says which element of which tensor it is. Mixed, so that no two neighbours and no two tensors look
// alike.
std::uint64_t value_of(std::uint64_t tensor, std::uint64_t element) {
  std::uint64_t x = tensor * 0x9e3779b97f4a7c15ULL + element + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Visits every position of a box, row-major.
template <typename Visit>
void for_each_position(const planner::Box& box, Visit visit) {
  std::vector<Index> at;
  for (const planner::Interval& interval : box) {
    if (interval.begin >= interval.end) return;
    at.push_back(interval.begin);
  }
  for (;;) {
    visit(at);
    std::size_t d = at.size();
    while (d > 0 && ++at[d - 1] == box[d - 1].end) {
      at[d - 1] = box[d - 1].begin;
      --d;
    }
    if (d == 0) return;
  }
}

// A rank's shard as the oracle has it: the value of every stored position, 0 for padding.
class Shard {
 public:
  Shard(const NaiveSide& side, const Shape& shape, std::size_t rank, std::uint64_t tensor) {
    for (std::size_t d = 0; d < shape.size(); ++d) lines_.push_back(&side.lines[d][rank]);
    planner::Box all;
    for (const naive::Line* line : lines_) all.push_back({0, static_cast<Index>(line->size())});
    for_each_position(all, [&](const std::vector<Index>& at) {
      std::uint64_t element = 0;
      bool padding = false;
      for (std::size_t d = 0; d < at.size(); ++d) {
        const Index global = (*lines_[d])[static_cast<std::size_t>(at[d])].global;
        padding = padding || global == naive::kPadding;
        element = element * static_cast<std::uint64_t>(shape[d]) + static_cast<std::uint64_t>(global);
      }
      values[at] = padding ? 0 : value_of(tensor, element);
    });
  }

  std::map<std::vector<Index>, std::uint64_t> values;

 private:
  std::vector<const naive::Line*> lines_;
};

void check_transfers(const Case& c, const TensorLayout& source, const TensorLayout& target,
                     const NaiveSide& naive_source, const NaiveSide& naive_target, std::uint64_t tensor) {
  const planner::TensorToRead to_read{&source, 2};
  const auto sources = planner::choose_sources({&to_read, 1});
  planner::prove_coverage(source, target, sources.front());
  const std::vector<planner::Transfer> moves = planner::list_transfers(source, target, sources.front());
  CHECK(std::is_sorted(moves.begin(), moves.end(), [](const planner::Transfer& a, const planner::Transfer& b) {
    return std::tie(a.target_rank, a.target_box) < std::tie(b.target_rank, b.target_box);
  }));

  std::vector<Shard> from;
  std::vector<std::map<std::vector<Index>, std::uint64_t>> written(static_cast<std::size_t>(target.ranks));
  for (Index rank = 0; rank < source.ranks; ++rank)
    from.emplace_back(naive_source, c.shape, static_cast<std::size_t>(rank), tensor);
  for (const planner::Transfer& move : moves) {
    const auto& values = from[static_cast<std::size_t>(move.source_rank)].values;
    auto& target_values = written[static_cast<std::size_t>(move.target_rank)];
    for_each_position(move.target_box, [&](const std::vector<Index>& at) {
      std::vector<Index> read = at;
      for (std::size_t d = 0; d < at.size(); ++d) read[d] += move.source_box[d].begin - move.target_box[d].begin;
      const bool first = target_values.try_emplace(at, values.at(read)).second;
      CHECK(first);
    });
  }
  for (Index rank = 0; rank < target.ranks; ++rank) {
    auto expected = Shard(naive_target, c.shape, static_cast<std::size_t>(rank), tensor).values;
    std::erase_if(expected, [](const auto& entry) { return entry.second == 0; });
    CHECK(written[static_cast<std::size_t>(rank)] == expected);
  }
}

// One source rank is gone: still planned and right where copies of all it held are left, E_COVERAGE where not.
void check_missing_rank(const Case& c, TensorLayout source, const TensorLayout& target, const NaiveSide& naive_source,
                        const NaiveSide& naive_target, Index gone, std::map<std::string, int>& seen) {
  std::set<std::vector<Index>> held;
  Index elements = 1;
  for (const Index length : c.shape) elements *= length;
  for (Index rank = 0; rank < source.ranks; ++rank) {
    if (rank == gone) continue;
    planner::Box all;
    for (const auto& lines : naive_source.lines)
      all.push_back({0, static_cast<Index>(lines[static_cast<std::size_t>(rank)].size())});
    for_each_position(all, [&](std::vector<Index> at) {
      for (std::size_t d = 0; d < at.size(); ++d)
        at[d] = naive_source.lines[d][static_cast<std::size_t>(rank)][static_cast<std::size_t>(at[d])].global;
      if (std::find(at.begin(), at.end(), naive::kPadding) == at.end()) held.insert(at);
    });
  }
  source.present.assign(static_cast<std::size_t>(source.ranks), true);
  source.present[static_cast<std::size_t>(gone)] = false;
  if (static_cast<Index>(held.size()) == elements) {
    ++seen["copies left"];
    check_transfers(c, source, target, naive_source, naive_target, 7);
  } else {
    ++seen["hole"];
    const planner::TensorToRead to_read{&source, 2};
    CHECK(codes([&] { planner::choose_sources({&to_read, 1}); }) == std::set<ErrorCode>{ErrorCode::kCoverage});
  }
}

// Stored lengths of one dim by tuple of coordinates, and by rank.
std::vector<Shape> stored_shapes(const NaiveSide& side, std::size_t ranks) {
  std::vector<Shape> out(ranks);
  for (const auto& lines : side.lines)
    for (std::size_t rank = 0; rank < ranks; ++rank) out[rank].push_back(static_cast<Index>(lines[rank].size()));
  return out;
}

void check_inference(const Case& c, const Side& side, const NaiveSide& expected, const Mesh& mesh,
                     std::map<std::string, int>& seen) {
  const std::vector<Shape> stored = stored_shapes(expected, static_cast<std::size_t>(mesh.size()));
  CHECK(layout::infer_shape(side.cut, mesh, stored, c.shape) == c.shape);

  // Without a recorded shape: the true one where one length fits each dim, E_PAD where several do.
  bool known = true;
  for (std::size_t d = 0; d < c.shape.size(); ++d) {
    const layout::DimCut& cut = side.cut.dims[d];
    const bool told = !cut.levels.empty() && (!cut.levels.front().segments.empty() || cut.levels.front().packed);
    std::vector<Index> by_tuple;
    Index limit = 0;
    for (const naive::Line& line : naive::cut_dim(cut, c.shape[d]).lines) {
      by_tuple.push_back(static_cast<Index>(line.size()));
      limit += by_tuple.back();
    }
    const bool empty = c.shape[d] == 0 && limit > 0;  // padding only: refused, for nothing would be left
    known =
        known && !empty && (told || naive::lengths_that_fit(cut, by_tuple, limit) == std::vector<Index>{c.shape[d]});
  }
  if (known) {
    ++seen["inferred"];
    CHECK(layout::infer_shape(side.cut, mesh, stored, std::nullopt) == c.shape);
  } else {
    ++seen["ambiguous"];
    const auto refused = codes([&] { layout::infer_shape(side.cut, mesh, stored, std::nullopt); });
    CHECK(refused == std::set<ErrorCode>{ErrorCode::kPad});
  }
}

}  // namespace

TEST_CASE("layouts, transfers and inferred shapes are those of an oracle that counts elements") {
  Random random(seed());
  std::map<std::string, int> shown;  // features of accepted cases
  std::map<std::string, int> seen;
  for (int i = 0; i < kCases;) {
    const std::string& wish =
        random_layouts::features()[static_cast<std::size_t>(i) % random_layouts::features().size()];
    const Case c = random_layouts::draw(random, wish);
    const std::string text = fmt::format("seed {} case {}: {}", seed(), i, random_layouts::describe(c));
    CAPTURE(text);
    const Mesh source_mesh(c.source.axes, c.source.ranks);
    const Mesh target_mesh(c.target.axes, c.target.ranks);
    const NaiveSide naive_source = naive_side(c.shape, c.source);
    const NaiveSide naive_target = naive_side(c.shape, c.target);
    bool refused = false;
    for (const auto& [side, mesh, naive] :
         {std::tuple(&c.source, &source_mesh, &naive_source), std::tuple(&c.target, &target_mesh, &naive_target)}) {
      const std::set<ErrorCode> found = codes([&] { layout::lay_out(c.shape, side->cut, *mesh); });
      CHECK(found.empty() == naive->faults.empty());
      CHECK(std::includes(naive->faults.begin(), naive->faults.end(), found.begin(), found.end()));
      refused = refused || !naive->faults.empty();
    }
    if (refused) {
      ++seen["refused"];
      continue;
    }
    if (!c.features.contains(wish)) continue;
    const TensorLayout source = layout::lay_out(c.shape, c.source.cut, source_mesh);
    const TensorLayout target = layout::lay_out(c.shape, c.target.cut, target_mesh);
    check_layout(source, naive_source);
    check_layout(target, naive_target);
    check_transfers(c, source, target, naive_source, naive_target, static_cast<std::uint64_t>(i));
    if (i % 4 == 1)
      check_missing_rank(c, source, target, naive_source, naive_target, random.between(0, source.ranks - 1), seen);
    if (i % 4 == 0) check_inference(c, c.source, naive_source, source_mesh, seen);
    for (const std::string& feature : c.features) ++shown[feature];
    ++i;
  }
  for (const std::string& feature : random_layouts::features()) {
    CAPTURE(feature);
    CHECK(shown[feature] >= kCases / 20);
  }
  CHECK(seen["refused"] > kCases / 20);
  CHECK(seen["inferred"] > kCases / 20);
  CHECK(seen["ambiguous"] > kCases / 200);
  CHECK(seen["copies left"] > kCases / 20);
  CHECK(seen["hole"] > kCases / 20);
  for (const auto& [what, count] : seen) MESSAGE(what, ": ", count);
}
