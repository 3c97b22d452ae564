// Who reads, in what order tiles are taken, and what a refusal names, where tensors and processes are unlike.

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "reshard/planner/rounds.hpp"
#include "support/cut_text.hpp"
#include "support/replay.hpp"

using namespace reshard;
using layout::Index;
using planner::Rounds;
using planner::RoundTile;
using planner::TargetMap;

namespace {

/// Columns of one file that become files of their own: tensor t, whole, lies in file t, which process t writes.
class Files {
 public:
  /// One column of `rows`, in tiles of so many.
  void add(Index rows, std::int64_t source_bytes, std::int64_t target_bytes, Index tile_rows) {
    random_layouts::Case c;
    c.shape = {rows};
    c.source.axes = c.target.axes = {{"tp", 1}};
    c.source.cut.dims = c.target.cut.dims = {{}};
    const replay::Pair pair = *replay::pair_of(c);
    tilings_.push_back(std::make_unique<planner::Tiling>(pair.source, pair.target, 2 * tile_rows));
    planner::WorkTensor tensor;
    tensor.tiling = tilings_.back().get();
    tensor.sources = pair.sources;
    tensor.source_element_bytes = source_bytes;
    tensor.target_element_bytes = target_bytes;
    work.push_back(tensor);
  }

  /// Files of one size: each process's share of the line is one of them, or all are the only one's.
  TargetMap map(int processes) const {
    std::vector<std::size_t> numbers(work.size());
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    std::vector<std::vector<planner::TensorOffset>> offsets;
    for (const std::size_t t : numbers) offsets.push_back({{t, 0}});
    const std::vector<std::int64_t> bytes(work.size(), std::int64_t{1} << 20);
    return TargetMap({0}, numbers, bytes, numbers, offsets, numbers, processes);
  }

  std::vector<planner::WorkTensor> work;

 private:
  std::vector<std::unique_ptr<planner::Tiling>> tilings_;
};

/// Bytes by the process that reads them.
std::vector<std::int64_t> bytes_read(const Files& files, int processes) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(processes), 0);
  const TargetMap map = files.map(processes);
  Rounds rounds(files.work, map, processes, {1 << 30});
  while (const auto round = rounds.next())
    for (const RoundTile& tile : *round)
      for (std::size_t s = 0; s < tile.readers.size(); ++s)
        out[static_cast<std::size_t>(tile.readers[s])] +=
            tile.tile.sources[s].span_elements() * files.work[tile.id.tensor].source_element_bytes;
  return out;
}

std::vector<std::string> refusals(const Files& files, planner::RoundBound bound) {
  std::vector<std::string> out;
  const TargetMap map = files.map(1);
  Rounds rounds(files.work, map, 1, bound);
  try {
    while (rounds.next()) {
    }
  } catch (const Error& error) {
    for (const Issue& issue : error.issues()) out.push_back(issue.message);
  }
  return out;
}

/// Entries of the tables in each round, of the process that has most.
std::vector<std::int64_t> tasks_by_round(const Files& files) {
  std::vector<std::int64_t> out;
  const TargetMap map = files.map(2);
  Rounds rounds(files.work, map, 2, {1 << 30, std::int64_t{1} << 30});
  while (rounds.next()) out.push_back(std::max(rounds.held()[0].tasks, rounds.held()[1].tasks));
  return out;
}

}  // namespace

TEST_CASE("a process reads what it writes up to a sixteenth more than the mean, the rest goes to who has read least") {
  Files files;
  files.add(768, 8, 4, 6);  // 128 tiles of 48 bytes
  files.add(768, 4, 4, 6);  // 128 of 24
  // 9216 bytes in all: 4608 and a sixteenth of that are 102 tiles of the first, and the other process reads the rest.
  CHECK(bytes_read(files, 2) == std::vector<std::int64_t>{4896, 4320});

  Files three;
  three.add(768, 16, 4, 6);  // 128 tiles of 96 bytes
  three.add(768, 2, 4, 6);   // 128 of 12
  three.add(768, 1, 4, 6);   // 128 of 6
  // 14592 bytes: 4864 and a sixteenth of that, 5168, are 53 tiles of the first. Of the other 75, with 636 and 318 bytes
  // read so far, the first goes to the third process.
  const TargetMap map = three.map(3);
  Rounds rounds(three.work, map, 3, {1 << 30});
  std::vector<ProcessRank> readers;
  while (const auto round = rounds.next())
    for (const RoundTile& tile : *round)
      if (tile.id.tensor == 0) readers.push_back(tile.readers.front());
  CHECK(readers[52] == 0);
  CHECK(readers[53] == 2);
}

TEST_CASE("of the processes that write a source part the one that writes most of it reads it") {
  random_layouts::Case c;
  c.shape = {4, 5};
  c.source.axes = {{"tp", 1}};
  c.source.cut.dims = {{}, {}};
  c.target.axes = {{"tp", 2}};
  c.target.cut.dims = {{}, cut_text::cut("tp", 2, [](layout::Level& level) {
                         level.split = layout::Split::kShares;
                         level.shares = {2, 3};
                       })};
  const replay::Pair pair = *replay::pair_of(c);
  const planner::Tiling tiling(pair.source, pair.target, 1000);
  planner::WorkTensor tensor;
  tensor.tiling = &tiling;
  tensor.sources = pair.sources;
  const std::vector<planner::WorkTensor> work(4, tensor);
  const std::vector<std::size_t> files = {0, 1};
  // Shards of 8 and 12 bytes, a file of each.
  const TargetMap map(files, {}, {100, 100}, files,
                      {{{0, 0}, {1, 8}, {2, 16}, {3, 24}}, {{0, 0}, {1, 12}, {2, 24}, {3, 36}}}, files, 2);
  Rounds rounds(work, map, 2, {1 << 20});
  const auto round = rounds.next();
  REQUIRE(round);
  std::vector<ProcessRank> readers;
  for (const RoundTile& tile : *round) {
    CHECK(tile.writers == std::vector<std::vector<ProcessRank>>{{0}, {1}});
    CHECK(tile.readers.size() == 1);
    readers.push_back(tile.readers.front());
  }
  // Two columns of one process, three of the other, which reads two parts of 20 bytes: its share is 42.
  CHECK(readers == std::vector<ProcessRank>{1, 1, 0, 0});
}

TEST_CASE("tiles are taken in turn by bytes, not by number or by elements") {
  Files files;
  files.add(64, 8, 8, 4);   // 16 tiles of 32 bytes
  files.add(512, 1, 1, 2);  // 256 of 2
  const TargetMap map = files.map(2);
  Rounds rounds(files.work, map, 2, {1 << 30});
  std::vector<std::int64_t> taken(2, 0);
  while (const auto round = rounds.next())
    for (const RoundTile& tile : *round) {
      taken[tile.id.tensor] += tile.tile.target_elements() * files.work[tile.id.tensor].target_element_bytes;
      CHECK(std::abs(taken[0] - taken[1]) <= 32);
    }
  CHECK(taken == std::vector<std::int64_t>{512, 512});
}

TEST_CASE("a refusal names what the largest tile needs, wherever it stands") {
  // Alone on its process and between GPUs a tile of n bytes holds it as read and as written on the host, and sent and
  // received on the device too; buffers are multiples of 256.
  for (const std::vector<Index>& rows : {std::vector<Index>{10, 500, 20}, {500, 10, 20}, {10, 20, 500}}) {
    Files files;
    for (const Index n : rows) files.add(n, 4, 4, n);
    CHECK(
        refusals(files, {511, 1023}) ==
        std::vector<std::string>{"--memory 511 is too small to make progress: at least 4096 bytes are needed",
                                 "--device-memory 1023 is too small to make progress: at least 8192 bytes are needed"});
    CHECK(
        refusals(files, {4096, 8191}) ==
        std::vector<std::string>{"--device-memory 8191 is too small to make progress: at least 8192 bytes are needed"});
    CHECK(refusals(files, {4096, 8192}).empty());
    // From host memory: read and written, in multiples of 64.
    CHECK(refusals(files, {4095}) ==
          std::vector<std::string>{"--memory 4095 is too small to make progress: at least 4096 bytes are needed"});
  }
}

TEST_CASE("the tables of a round are bounded on every process, one by one") {
  for (const bool first_has_many : {true, false}) {
    CAPTURE(first_has_many);
    Files files;
    const Index many = planner::kRoundTasks + 1;
    // Each process reads what it writes: an entry for each tile.
    for (const bool is_first : {true, false}) files.add(many, 1, 1, is_first == first_has_many ? 1 : many);
    CHECK(tasks_by_round(files) == std::vector<std::int64_t>{planner::kRoundTasks, 1});
  }
}

TEST_CASE("a single tile may have more tasks than the tables hold") {
  random_layouts::Case c;
  c.shape = {planner::kRoundTasks + 1, 1, 1, 1, 1, 1};  // an entry walks five dims: one for each row
  c.source.axes = c.target.axes = {{"tp", 1}};
  c.source.cut.dims.resize(6);
  c.target.cut.dims.resize(6);
  const replay::Pair pair = *replay::pair_of(c);
  const planner::Tiling tiling(pair.source, pair.target, 1 << 20);
  planner::WorkTensor tensor;
  tensor.tiling = &tiling;
  tensor.sources = pair.sources;
  const std::vector<std::size_t> files = {0};
  const TargetMap map(files, {}, {1 << 20}, files, {{{0, 0}}}, files, 1);
  Rounds rounds({&tensor, 1}, map, 1, {1 << 30, 1 << 30});
  CHECK(rounds.next().value().size() == 1);
  CHECK(rounds.held().front().tasks == 2 * (planner::kRoundTasks + 1));  // packed and unpacked
  CHECK_FALSE(rounds.next());
}

TEST_CASE("a message has room for its digest on both sides") {
  Files files;
  files.add(128, 1, 1, 64);  // two tiles of 64 bytes, in a file whose only block is the second process's
  const TargetMap map = files.map(2);
  Rounds rounds(files.work, map, 2, {1 << 20});
  const auto round = rounds.next();
  REQUIRE(round);
  REQUIRE(round->size() == 2);
  // 64 bytes and a sixteenth are its share of the reads; the other tile is read by the first process and sent.
  CHECK(round->at(0).readers == std::vector<ProcessRank>{1});
  CHECK(round->at(1).readers == std::vector<ProcessRank>{0});
  // 64 bytes with 8 of a digest take 128: read and sent; read, written twice and received.
  CHECK(rounds.held() == std::vector<planner::RoundMemory>{{64 + 128}, {64 + 2 * 64 + 128}});
}

TEST_CASE("temporary padding takes a buffer for its element and entries of its own in a GPU's table") {
  random_layouts::Case c;
  c.shape = {5, 2, 2, 2, 2};
  c.source.axes = {{"cp", 1}};
  c.source.cut.dims.resize(5);
  c.target.axes = {{"cp", 2}};
  c.target.cut.dims.resize(5);
  // Five rows become eight in four chunks of two. One rank has rows 0 and 1 and two of padding, the other rows 2, 3 and
  // 4 and one of padding.
  c.target.cut.dims[0] = cut_text::cut("cp", 2, [](layout::Level& level) {
    level.layout = layout::SequenceLayout::kZigzag;
    level.packed = layout::PackedSequences{{0, 5}, {}, "", ""};
  });
  const replay::Pair pair = *replay::pair_of(c);
  const planner::Tiling tiling(pair.source, pair.target, 1 << 20);
  planner::WorkTensor tensor;
  tensor.tiling = &tiling;
  tensor.sources = pair.sources;
  tensor.source_element_bytes = tensor.target_element_bytes = 4;
  const std::vector<std::size_t> files = {0, 1};
  const TargetMap map(files, {}, {1000, 1000}, {0, 0}, {{{0, 0}}}, files, 1);
  Rounds rounds({&tensor, 1}, map, 1, {1 << 20, 1 << 20});
  REQUIRE(rounds.next());
  // Each in a buffer of 256 bytes: two pieces as read and as written, two of padding with the element of each. On the
  // device both pieces as sent and as received besides. Entries: two pieces packed and unpacked, two of padding zeroed,
  // three rows filled with an element that is no run, of which an entry walks four dims.
  CHECK(rounds.held() == std::vector<planner::RoundMemory>{{8 * 256, 12 * 256, 4 + 2 + 3}});
  CHECK_FALSE(rounds.next());
}
