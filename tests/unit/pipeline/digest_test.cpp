// A byte that changes in any buffer between the file read and the file written, for any copy, or in that file, must end
// the run.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "reshard/pipeline/run.hpp"
#include "unit/pipeline/checkpoint_fixtures.hpp"

using namespace reshard;
using pipeline::BufferStage;
using pipeline::Transport;

namespace {

/// Flips a bit of one byte of the n-th buffer of a stage.
class Flip : public pipeline::Hooks {
 public:
  Flip(BufferStage stage, int number, bool last) : stage_(stage), left_(number), last_(last) {}
  void on_buffer(BufferStage stage, std::string_view tensor, std::span<std::byte> bytes) override {
    if (stage != stage_ || tensor != "w" || left_-- != 0) return;
    (last_ ? bytes.back() : bytes.front()) ^= std::byte{1};
    done_ = true;
  }
  bool done() const { return done_; }

 private:
  BufferStage stage_;
  std::atomic<int> left_;
  bool last_;
  std::atomic<bool> done_ = false;
};

struct Setting {
  test::TemporaryDirectory root;
  pipeline::RunOptions options;

  explicit Setting(const std::string& rule) {
    const fs::path source = root.path() / "source";
    fs::create_directory(source);
    for (const char* file : {"rank-00000.safetensors", "rank-00001.safetensors"})
      test::write_checkpoint(source / file, {{"w", Dtype::kF32, {30, 8}, {60, 8}}});
    options.prepare.plan_file = root.path() / "plan.yaml";
    write_text(options.prepare.plan_file,
               "reshard: 1\nsource: {axes: [tp=2]}\ntarget: {axes: [dp=2, tp=3]}\ntensors: [" + rule + "]\n");
    options.prepare.source = source;
    options.prepare.target = root.path() / "target";
    options.tool = "reshard test";
    options.verify = true;
  }

  std::string run() {
    const auto alone = exchange::alone();
    return test::code_of([&] { pipeline::run(options, test::test_formats(), *alone); });
  }
  bool is_published() const { return fs::exists(root.path() / "target"); }
  void clear() {
    fs::remove_all(root.path() / "target");
    fs::remove_all(root.path() / "target.partial");
  }
};

/// Flips every buffer of every stage in turn; how many there were.
int flip_everything(const std::string& rule, Transport transport, std::int64_t memory_bytes) {
  Setting setting(rule);
  setting.options.prepare.transport = transport;
  setting.options.prepare.memory_bytes = memory_bytes;
  int flips = 0;
  for (const BufferStage stage : {BufferStage::kRead, BufferStage::kUnpacked, BufferStage::kReadBack})
    for (const bool last : {false, true})
      for (int number = 0;; ++number) {
        CAPTURE(static_cast<int>(stage));
        CAPTURE(number);
        Flip flip(stage, number, last);
        setting.options.hooks = &flip;
        const std::string found = setting.run();
        CHECK(found == (flip.done() ? "E_DIGEST" : "accepted"));
        CHECK(setting.is_published() == !flip.done());
        setting.clear();
        if (!flip.done()) break;
        ++flips;
      }
  return flips;
}

}  // namespace

TEST_CASE("a flipped bit in any buffer or file ends the run with E_DIGEST, for every target rank and replica") {
  const std::string plain = "{match: w, shard: {0: tp}";
  int least =
      0;  // first and last byte of every read and write buffer, one write for all replicas, and of the six files
  std::string rule;
  std::int64_t memory_bytes = 1 << 29;
  SUBCASE("rows to rows, which go as they are") {
    rule = plain + "}";
    least = 2 * (2 + 3 + 6);
  }
  SUBCASE("rows to columns") {
    rule = plain + ", target: {shard: {0: null, 1: {axes: tp, split: balanced}}}}";
    least = 2 * (2 + 3 + 6);
  }
  SUBCASE("a row that several target ranks hold") {
    rule = plain + ", target: {shard: {0: {axes: tp, unit: 60, fallback: repeat, size: 60}}}}";
    least = 2 * (2 + 1 + 6);
  }
  SUBCASE("two copies of a unit in different shards") {
    rule = plain + ", target: {shard: {0: {axes: tp, segments: [30, {size: 30, unit: 30, fallback: repeat}]}}}}";
    least = 2 * (2 + 6 + 6);
  }
  SUBCASE("converted") {
    rule = plain + ", dtype: bf16}";
    least = 2 * (2 + 3 + 6);
  }
  SUBCASE("converted, two copies of a unit in different shards") {
    rule = plain +
           ", dtype: f64, target: {shard: {0: {axes: tp, segments: [30, {size: 30, unit: 30, fallback: repeat}]}}}}";
    least = 2 * (2 + 6 + 6);
  }
  SUBCASE("in many small tiles") {
    rule = plain + "}";
    memory_bytes = 1 << 14;
    least = 2 * (2 + 3 + 6);
  }
  for (const Transport transport : {Transport::kDirect, Transport::kMpi}) {
    CAPTURE(name(transport));
    CHECK(flip_everything(rule, transport, memory_bytes) >= least);
  }
}
