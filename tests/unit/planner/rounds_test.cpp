#include "reshard/planner/rounds.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "support/cut_text.hpp"
#include "support/replay.hpp"

using namespace reshard;
using layout::Index;
using planner::Rounds;
using planner::RoundTile;
using planner::TargetMap;
using planner::Tiling;
using planner::WorkTensor;

namespace {

/// Tensors of one pair of meshes, every target rank's in a file of its own.
struct Setup {
  std::vector<std::unique_ptr<Tiling>> tilings;
  std::vector<WorkTensor> work;
  std::vector<const layout::TensorLayout*> targets;

  void add(const replay::Pair& pair, std::int64_t element_bytes, Index tile_elements) {
    tilings.push_back(std::make_unique<Tiling>(pair.source, pair.target, tile_elements));
    WorkTensor tensor;
    tensor.tiling = tilings.back().get();
    tensor.sources = pair.sources;
    tensor.source_element_bytes = tensor.target_element_bytes = element_bytes;
    work.push_back(tensor);
    targets.push_back(&pair.target);
  }

  TargetMap map(int processes) const {
    const auto ranks = static_cast<std::size_t>(targets.front()->ranks);
    std::vector<std::size_t> files(ranks);
    std::iota(files.begin(), files.end(), std::size_t{0});
    std::vector<std::int64_t> bytes(ranks, 100);
    std::vector<std::vector<planner::TensorOffset>> offsets(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      for (std::size_t t = 0; t < work.size(); ++t) {
        offsets[rank].push_back({offsets[rank].size(), bytes[rank]});
        std::int64_t elements = 1;
        for (const Index extent : targets[t]->stored_shape(static_cast<Index>(rank))) elements *= extent;
        bytes[rank] += elements * work[t].target_element_bytes;
      }
    return TargetMap(files, {}, bytes, files, offsets, files, processes);
  }
};

std::string text(const RoundTile& tile) {
  return fmt::format("{}.{} read by {} written by {}", tile.id.tensor, tile.id.number, fmt::join(tile.readers, ","),
                     fmt::join(tile.writers, ";"));
}

struct Outcome {
  std::vector<std::vector<std::string>> rounds;
  std::vector<std::int64_t> read_bytes;  // by process
  std::int64_t most_held = 0;
};

/// Element by element.
std::vector<ProcessRank> writers_of(const planner::TargetPart& part, std::size_t tensor, std::int64_t element_bytes,
                                    const TargetMap& map) {
  std::set<ProcessRank> out;
  for (const Index rank : part.ranks) {
    const std::size_t file = map.file(tensor, rank);
    for (Index e = part.first; e < part.first + part.elements; ++e) {
      const std::int64_t begin = map.offset(tensor, file) + e * element_bytes;
      for (const planner::WriteRegion& region : map.regions(file, begin, begin + element_bytes))
        out.insert(region.process);
    }
  }
  return {out.begin(), out.end()};
}

Outcome run(const Setup& setup, const TargetMap& map, int processes, std::int64_t bound) {
  Outcome out;
  out.read_bytes.assign(static_cast<std::size_t>(processes), 0);
  Rounds rounds(setup.work, map, processes, {bound});
  while (const auto round = rounds.next()) {
    out.rounds.emplace_back();
    for (const RoundTile& tile : *round) {
      out.rounds.back().push_back(text(tile));
      for (std::size_t s = 0; s < tile.readers.size(); ++s)
        out.read_bytes[static_cast<std::size_t>(tile.readers[s])] +=
            tile.tile.sources[s].span_elements() * setup.work[tile.id.tensor].source_element_bytes;
      for (std::size_t t = 0; t < tile.writers.size(); ++t)
        CHECK(tile.writers[t] ==
              writers_of(tile.tile.targets[t], tile.id.tensor, setup.work[tile.id.tensor].target_element_bytes, map));
    }
    for (const planner::RoundMemory& held : rounds.held()) out.most_held = std::max(out.most_held, held.host_bytes);
  }
  return out;
}

/// The bytes that a refusal for want of memory names; 0 where there is none.
std::int64_t least_named(const Setup& setup, const TargetMap& map, int processes, std::int64_t bound) {
  try {
    Rounds rounds(setup.work, map, processes, {bound});
    while (rounds.next()) {
    }
  } catch (const Error& error) {
    CHECK(error.exit() == Exit::kMemory);
    const std::string& message = error.issues().front().message;
    return std::stoll(message.substr(message.find("least ") + 6));
  }
  return 0;
}

replay::Pair uncut_to_rows(Index rows, Index columns, Index ranks) {
  random_layouts::Case c;
  c.shape = {rows, columns};
  c.source.axes = {{"tp", 1}};
  c.source.cut.dims = {{}, {}};
  c.target.axes = {{"tp", ranks}};
  c.target.cut.dims = {cut_text::cut("tp", ranks), {}};
  return *replay::pair_of(c);
}

}  // namespace

TEST_CASE("every tile is in one round, the same on every process, and no process holds more than the bound") {
  random_layouts::Random random(20260905);
  for (std::size_t i = 0; i < 300; ++i) {
    const replay::Drawn drawn = replay::draw_pair(random, i);
    CAPTURE(random_layouts::describe(drawn.layouts));
    Setup setup;
    setup.add(drawn.pair, random.one_of<std::int64_t>({1, 4}), random.one_of<Index>({1, 20, 500}));
    setup.add(drawn.pair, 8, random.one_of<Index>({7, 100}));
    const int processes = static_cast<int>(random.between(1, 6));
    const TargetMap map = setup.map(processes);

    const std::int64_t least = least_named(setup, map, processes, 1);
    const std::size_t tiles = planner::TileList(setup.work).size();
    CHECK((least > 1) == (tiles > 0));
    if (tiles == 0) continue;
    CHECK(least_named(setup, map, processes, least) == 0);
    CHECK(least_named(setup, map, processes, least - 1) == least);

    const std::int64_t bound = least * random.between(1, 4);
    const Outcome outcome = run(setup, map, processes, bound);
    CHECK(outcome.most_held <= bound);
    std::set<std::string> seen;
    std::size_t count = 0;
    for (const auto& round : outcome.rounds)
      for (const std::string& tile : round) {
        seen.insert(tile.substr(0, tile.find(' ')));
        ++count;
      }
    CHECK(count == tiles);
    CHECK(seen.size() == tiles);
    CHECK(run(setup, map, processes, bound).rounds == outcome.rounds);
    // A tighter bound makes more rounds of the same tiles, with the same readers and writers.
    std::vector<std::string> flat;
    for (const auto& round : outcome.rounds) flat.insert(flat.end(), round.begin(), round.end());
    std::vector<std::string> tight;
    for (const auto& round : run(setup, map, processes, least).rounds)
      tight.insert(tight.end(), round.begin(), round.end());
    CHECK(tight == flat);
  }
}

TEST_CASE("a process holds all source parts and target parts of its tiles, each in whole alignments") {
  const replay::Pair pair = uncut_to_rows(30, 4, 2);
  Setup setup;
  setup.add(pair, 4, 1000);  // two tiles of 15 rows of 16 bytes: 240 bytes in buffers of 256
  const TargetMap map = setup.map(1);
  Rounds rounds(setup.work, map, 1, {1 << 20});
  CHECK(rounds.next().value().size() == 2);
  CHECK(rounds.held() == std::vector<planner::RoundMemory>{{4 * 256}});
}

TEST_CASE("a conversion holds what it packs and what it makes of it, too") {
  const replay::Pair pair = uncut_to_rows(30, 4, 2);
  Setup setup;
  setup.add(pair, 4, 1000);  // two tiles of 60 elements
  setup.work.front().target_element_bytes = 2;
  const TargetMap map = setup.map(1);
  Rounds rounds(setup.work, map, 1, {1 << 20});
  CHECK(rounds.next().value().size() == 2);
  // 240 bytes read and packed, 120 converted and written.
  CHECK(rounds.held() == std::vector<planner::RoundMemory>{{2 * (256 + 256 + 128 + 128)}});
}

TEST_CASE("a process reads at most a quarter more than the mean, also where one source rank holds everything") {
  for (const int processes : {1, 2, 3, 4, 6, 8})
    for (const Index ranks : {1, 2, 6}) {
      CAPTURE(processes);
      CAPTURE(ranks);
      const replay::Pair pair = uncut_to_rows(1200, 64, ranks);
      Setup setup;
      setup.add(pair, 4, 2 * 64 * 5);
      const Outcome outcome = run(setup, setup.map(processes), processes, 1 << 20);
      const std::int64_t total = std::accumulate(outcome.read_bytes.begin(), outcome.read_bytes.end(), std::int64_t{0});
      CHECK(total == 1200 * 64 * 4);
      for (const std::int64_t bytes : outcome.read_bytes) CHECK(bytes * processes <= total * 5 / 4);
    }
}

TEST_CASE("what a process writes it reads itself where the shares allow it") {
  const replay::Pair pair = uncut_to_rows(8 << 10, 256, 2);  // 8 MiB, 4 MiB for each process
  Setup setup;
  setup.add(pair, 4, 64 << 10);
  const TargetMap map = setup.map(2);
  std::int64_t foreign = 0;
  Rounds rounds(setup.work, map, 2, {64 << 20});
  while (const auto round = rounds.next())
    for (const RoundTile& tile : *round)
      for (std::size_t s = 0; s < tile.readers.size(); ++s)
        if (std::find(tile.writers[0].begin(), tile.writers[0].end(), tile.readers[s]) == tile.writers[0].end())
          ++foreign;
  CHECK(foreign == 0);
}

TEST_CASE("tiles are taken in turn from the processes' shares of the target") {
  const replay::Pair pair = uncut_to_rows(64, 4, 2);
  Setup setup;
  setup.add(pair, 4, 2 * 4 * 2);  // tiles of the same size
  const TargetMap map = setup.map(2);
  Rounds rounds(setup.work, map, 2, {1 << 20});
  std::vector<int> taken(2, 0);
  while (const auto round = rounds.next())
    for (const RoundTile& tile : *round) {
      ++taken[static_cast<std::size_t>(tile.writers.front().front())];
      CHECK(std::abs(taken[0] - taken[1]) <= 1);
    }
  CHECK(taken[0] > 1);
  CHECK(taken[0] == taken[1]);
}

TEST_CASE(
    "between GPUs the host holds what is read and written, the device the messages too, one process's own included") {
  const replay::Pair pair = uncut_to_rows(30, 4, 2);
  Setup setup;
  setup.add(pair, 4, 1000);  // two tiles of 15 rows of 16 bytes: 240 bytes in buffers of 256
  const TargetMap one = setup.map(1);
  Rounds alone(setup.work, one, 1, {1 << 20, 1 << 20});
  CHECK(alone.next().value().size() == 2);
  // Each tile: read, written; sent, received; packed and unpacked.
  CHECK(alone.held() == std::vector<planner::RoundMemory>{{2 * 512, 2 * 1024, 2 * 2}});

  const TargetMap two = setup.map(2);
  Rounds together(setup.work, two, 2, {1 << 20, 1 << 20});
  CHECK(together.next().value().size() == 2);
  // Each process reads what it writes: one task moves it.
  CHECK(together.held() == std::vector<planner::RoundMemory>{{512, 512, 1}, {512, 512, 1}});
}

TEST_CASE("bounds that are too small for a round between GPUs are each named, with what all rounds in flight need") {
  const replay::Pair pair = uncut_to_rows(30, 4, 2);
  Setup setup;
  setup.add(pair, 4, 1000);
  const TargetMap map = setup.map(1);
  const auto refusals = [&](planner::RoundBound bound) {
    std::vector<std::string> out;
    try {
      Rounds rounds(setup.work, map, 1, bound);
      while (rounds.next()) {
      }
    } catch (const Error& error) {
      CHECK(error.exit() == Exit::kMemory);
      for (const Issue& issue : error.issues()) out.push_back(issue.message);
    }
    return out;
  };
  const std::string host = "--memory 1023 is too small to make progress: at least 1024 bytes are needed";
  const std::string device = "--device-memory 2047 is too small to make progress: at least 2048 bytes are needed";
  CHECK(refusals({1023, 2047, 2}) == std::vector<std::string>{host, device});
  CHECK(refusals({1024, 2047, 2}) == std::vector<std::string>{device});
  CHECK(refusals({1023, 2048, 2}) == std::vector<std::string>{host});
  CHECK(refusals({1024, 2048, 2}).empty());
}

TEST_CASE("a round between GPUs has no more tasks than the tables hold, however small its boxes are") {
  const replay::Pair pair = uncut_to_rows(planner::kRoundTasks, 1, 2);
  Setup setup;
  setup.add(pair, 4, 2);  // a tile for each row
  const TargetMap map = setup.map(1);
  Rounds rounds(setup.work, map, 1, {1 << 30, 1 << 30});
  std::vector<std::int64_t> tasks;
  while (rounds.next()) tasks.push_back(rounds.held().front().tasks);
  CHECK(tasks == std::vector<std::int64_t>{planner::kRoundTasks, planner::kRoundTasks});
}

TEST_CASE("an entry of a GPU's table walks the innermost five dims, what is outside makes more of them") {
  random_layouts::Case c;
  c.shape = {6, 4, 4, 4, 4, 4};
  c.source.axes = {{"a", 1}};
  c.source.cut.dims.resize(6);
  // Half of every dim, so that none continues another: boxes of 3 x 2 x 2 x 2 x 2 x 2.
  for (const char* axis : {"a", "b", "c", "d", "e", "f"}) {
    c.target.axes.push_back({axis, 2});
    c.target.cut.dims.push_back(cut_text::cut(axis, 2));
  }
  const replay::Pair pair = *replay::pair_of(c);
  Setup setup;
  setup.add(pair, 4, 1 << 20);
  const TargetMap map = setup.map(1);
  Rounds rounds(setup.work, map, 1, {1 << 30, 1 << 30});
  std::int64_t tasks = 0;
  while (rounds.next()) tasks += rounds.held().front().tasks;
  // 64 boxes, each packed and unpacked: 3 entries of 5 dims.
  CHECK(tasks == 64 * 2 * 3);
}
