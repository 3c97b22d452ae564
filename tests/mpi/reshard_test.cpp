// Whole runs by several processes. What they must give is what one process gives, and what the oracle counts.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mpi/world.hpp"
#include "reshard/format/hdf5/hdf5.hpp"
#include "reshard/format/safetensors/safetensors.hpp"
#include "reshard/pipeline/run.hpp"
#include "support/minimal_files.hpp"
#include "support/plan_cases.hpp"

using namespace reshard;
using mpi_test::is_same_everywhere;
using mpi_test::outcome;
using mpi_test::SharedDirectory;
using mpi_test::world;
using pipeline::BufferStage;
using pipeline::Transport;

namespace {

const pipeline::Formats& formats() {
  static const pipeline::Formats all = [] {
    std::vector<std::unique_ptr<format::FileFormat>> list;
    list.push_back(format::make_hdf5("/proc/self/exe"));
    list.push_back(format::make_safetensors());
    return pipeline::Formats(std::move(list));
  }();
  return all;
}

std::vector<std::byte> noise(std::uint64_t seed, std::size_t bytes) {
  random_layouts::Random random(seed);
  std::vector<std::byte> out(bytes);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random.between(0, 255));
  return out;
}

/// Two ranks of a small model: cut by rows, by columns, converted, padded, packed, whole, empty.
constexpr const char* kPlan = R"(
reshard: 1
source: {axes: [tp=2]}
target: {axes: [dp=2, tp=3]}
tensors:
  - {match: rows,      shard: {0: tp}}
  - {match: columns,   shard: {1: tp}, target: {shard: {1: null, 0: tp}}}
  - {match: converted, shard: {0: tp}, dtype: bf16}
  - {match: padded,    shard: {0: {axes: tp, size: 100}}, target: {shard: {0: {axes: tp, pad_to: 8, fill: last}}}}
  - {match: packed,    target: {shard: {0: {axes: tp, layout: zigzag, packed: {cu_seqlens: [0, 5, 13]}, pad_value: 2}}}}
  - {match: whole}
  - {match: empty}
)";

void write_source(const fs::path& directory) {
  const auto shared = [](std::uint64_t seed, const char* dtype, Shape shape, std::size_t bytes) {
    return minimal::Tensor{dtype, std::move(shape), noise(seed, bytes)};
  };
  for (std::uint64_t rank = 0; rank < 2; ++rank)
    minimal::write(directory / fmt::format("rank-{:05}.safetensors", rank), "safetensors",
                   {{"rows", shared(10 + rank, "f32", {300, 40}, 48000)},
                    {"columns", shared(20 + rank, "bf16", {90, 50}, 9000)},
                    {"converted", shared(30 + rank, "f32", {60, 7}, 1680)},
                    {"padded", shared(40 + rank, "u8", {50, 11}, 550)},
                    {"packed", shared(50, "i64", {13, 3}, 312)},
                    {"whole", shared(60, "f64", {17}, 136)},
                    {"empty", shared(70, "f32", {0, 3}, 0)}});
}

/// A source and a plan that all processes see, and runs of it.
class Setting {
 public:
  explicit Setting(const std::string& plan = kPlan) {
    if (world().rank() == 0) {
      write_source(source());
      write_text(root_.path() / "plan.yaml", plan);
    }
    world().barrier();
  }

  pipeline::RunOptions options(const std::string& target, Transport transport, int processes) const {
    pipeline::RunOptions out;
    out.prepare.plan_file = root_.path() / "plan.yaml";
    out.prepare.source = source();
    out.prepare.transport = transport;
    out.prepare.processes = processes;
    out.prepare.threads = 2;
    out.prepare.target = root_.path() / target;
    out.tool = "reshard test";
    out.gpus = mpi_test::exchange_under_test().gpus;
    return out;
  }
  pipeline::RunOptions options(const std::string& target, Transport transport) const {
    return options(target, transport, world().size());
  }
  pipeline::RunResult run(const pipeline::RunOptions& options) const {
    return pipeline::run(options, formats(), world());
  }

  /// By one process; the others wait. The result is there after this.
  void run_alone(const std::string& target, std::optional<std::string> target_format = std::nullopt) const {
    std::string failure;
    if (world().rank() == 0) {
      const auto alone = exchange::alone();
      pipeline::RunOptions how = options(target, Transport::kDirect, 1);
      how.prepare.plan.target_format = std::move(target_format);
      how.staging.resume = true;
      failure = outcome([&] { pipeline::run(how, formats(), *alone); });
    } else {
      failure = "done";
    }
    world().barrier();
    CHECK(failure == "done");
  }

  /// Names of the files in two targets that are not the same, on every process.
  std::string different(const std::string& a, const std::string& b) const {
    std::map<std::string, std::vector<std::byte>> files;
    for (const std::string& target : {a, b})
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_.path() / target))
        if (!entry.is_directory())
          files[target + "/" + entry.path().lexically_relative(root_.path() / target).string()] =
              minimal::read_bytes(entry.path());
    std::vector<std::string> out;
    for (const auto& [name, bytes] : files) {
      const bool in_a = name.starts_with(a + "/");
      const std::string other = (in_a ? b : a) + name.substr((in_a ? a : b).size());
      if (!files.contains(other) || files[other] != bytes) out.push_back(name);
    }
    return fmt::format("{}", fmt::join(out, " "));
  }
  bool exists(const std::string& name) const {
    world().barrier();
    return fs::exists(root_.path() / name);
  }
  /// Lets a run of the same target follow one that failed.
  void clear(const std::string& target) const {
    world().barrier();
    if (world().rank() == 0) {
      fs::remove_all(root_.path() / target);
      fs::remove_all(root_.path() / (target + ".partial"));
    }
    world().barrier();
  }
  fs::path source() const { return root_.path() / "source"; }
  const fs::path& root() const { return root_.path(); }

 private:
  SharedDirectory root_;
};

/// Spoils, or throws at, the n-th buffer of a stage and tensor on one process.
class Mischief : public pipeline::Hooks {
 public:
  Mischief(BufferStage stage, std::string tensor, int number, bool throws)
      : stage_(stage), tensor_(std::move(tensor)), left_(number), throws_(throws) {}

  void on_buffer(BufferStage stage, std::string_view tensor, std::span<std::byte> bytes) override {
    if (stage != stage_ || tensor != tensor_ || bytes.empty() || left_-- != 0) return;
    done_ = true;
    if (throws_) throw Error(Issue{ErrorCode::kIo, "somewhere", std::string(tensor), "a cable was pulled"});
    bytes[0] ^= std::byte{16};
  }
  bool done() const { return done_; }

 private:
  BufferStage stage_;
  std::string tensor_;
  std::atomic<int> left_;
  bool throws_;
  std::atomic<bool> done_ = false;
};

/// The one that sends bytes from process to process.
Transport exchanging() {
  return mpi_test::exchange_under_test().transport;
}

/// GPUs hold two rounds at a time, with buffers at multiples of 256 bytes.
std::int64_t small_memory() {
  return exchanging() == Transport::kNccl ? 100000 : 40000;
}

constexpr BufferStage kStages[] = {BufferStage::kRead, BufferStage::kPacked, BufferStage::kReceived,
                                   BufferStage::kUnpacked};

/// Outcomes by stage and process of a mischief there; how many of them came to pass.
int try_mischief(const Setting& setting, Transport transport, const std::string& tensor, bool throws,
                 const std::string& expected) {
  int happened = 0;
  for (const BufferStage stage : kStages)
    for (int process = 0; process < world().size(); ++process) {
      CAPTURE(static_cast<int>(stage));
      CAPTURE(process);
      Mischief mischief(stage, tensor, 0, throws);
      pipeline::RunOptions options = setting.options("spoiled", transport);
      if (world().rank() == process) options.hooks = &mischief;
      const std::string found = outcome([&] { setting.run(options); });
      CHECK(is_same_everywhere(found));
      std::int64_t done = mischief.done() ? 1 : 0;
      world().all_sum({&done, 1});
      CHECK(found.substr(0, found.find(':')) == (done > 0 ? expected : "done"));
      CHECK(setting.exists("spoiled") == (done == 0));
      CHECK_FALSE(setting.exists("spoiled/reshard.json") != (done == 0));
      setting.clear("spoiled");
      happened += static_cast<int>(done);
    }
  return happened;
}

}  // namespace

TEST_CASE("every number of processes and every transport gives the bytes of one process") {
  const Setting setting;
  setting.run_alone("alone");
  for (const Transport transport : {Transport::kDirect, exchanging(), Transport::kAuto})
    for (const std::int64_t memory : {std::int64_t{1} << 29, small_memory()}) {
      CAPTURE(name(transport));
      CAPTURE(memory);
      pipeline::RunOptions options = setting.options("together", transport);
      options.prepare.memory_bytes = memory;
      pipeline::RunResult result;
      const std::string found = outcome([&] { result = setting.run(options); });
      CHECK(found == "done");
      world().barrier();
      CHECK(setting.different("alone", "together") == "");
      for (const std::int64_t peak : result.peak_staging_bytes) CHECK(peak <= memory);
      setting.clear("together");
    }
}

TEST_CASE("tensors that everyone needs are exchanged while others are read directly, to the bytes of one process") {
  const Setting setting;
  setting.run_alone("alone");
  for (const std::int64_t memory_bytes : {std::int64_t{1} << 29, small_memory()}) {
    CAPTURE(memory_bytes);
    pipeline::RunOptions options = setting.options("together", Transport::kAuto);
    options.prepare.machine = pipeline::Machine{pipeline::Storage::kNetwork, 2};
    options.prepare.memory_bytes = memory_bytes;
    pipeline::RunResult result;
    CHECK(outcome([&] { result = setting.run(options); }) == "done");
    CHECK(setting.different("alone", "together") == "");
    const planner::Selection& exchanged = result.prepared->transport.exchanged;
    const auto count = std::count(exchanged.begin(), exchanged.end(), true);
    if (world().size() > 1) CHECK((count > 0 && count < std::ssize(exchanged)));
    if (world().size() == 1) CHECK(count == 0);
    setting.clear("together");
  }
}

TEST_CASE("processes of one machine are one node") {
  CHECK(world().nodes() == 1);
}

TEST_CASE("a tensor eight times the memory bound is moved within it, and files are shared by their writers") {
  const Setting setting(
      "reshard: 1\nsource: {axes: [tp=2]}\ntarget: {axes: [dp=1]}\ntensors: [{match: big, shard: {1: tp}}]\n");
  constexpr std::int64_t kBound = 512 << 10;
  if (world().rank() == 0)
    for (std::uint64_t rank = 0; rank < 2; ++rank)  // together 4 MiB and a little
      minimal::write(setting.source() / fmt::format("rank-{:05}.safetensors", rank), "safetensors",
                     {{"big", {"f32", {1030, 513}, noise(rank, 1030 * 513 * 4)}}});
  world().barrier();
  setting.run_alone("alone");
  for (const Transport transport : {Transport::kDirect, exchanging()}) {
    CAPTURE(name(transport));
    pipeline::RunOptions options = setting.options("together", transport);
    options.prepare.memory_bytes = kBound;
    pipeline::RunResult result;
    CHECK(outcome([&] { result = setting.run(options); }) == "done");
    world().barrier();
    CHECK(setting.different("alone", "together") == "");
    CHECK(result.peak_staging_bytes.size() == static_cast<std::size_t>(world().size()));
    for (const std::int64_t peak : result.peak_staging_bytes) CHECK(peak <= kBound);
    if (transport == exchanging()) {
      std::int64_t sum = 0;
      for (const std::int64_t bytes : result.bytes_read) {
        sum += bytes;
        CHECK(bytes * world().size() <= (1030 * 1026 * 4) * 5 / 4);
      }
      CHECK(sum == 1030 * 1026 * 4);  // every source byte once
    }
    setting.clear("together");
  }
}

TEST_CASE("memory that is too small is refused on all processes, naming the least that works") {
  const Setting setting;
  for (const Transport transport : {Transport::kDirect, exchanging()}) {
    CAPTURE(name(transport));
    pipeline::RunOptions options = setting.options("small", transport);
    options.prepare.memory_bytes = 1;
    const std::string found = outcome([&] { setting.run(options); });
    CHECK(is_same_everywhere(found));
    REQUIRE(found.starts_with("E_MEMORY exit 7: --memory 1 is too small to make progress: at least "));
    CHECK_FALSE(setting.exists("small.partial"));
    options.prepare.memory_bytes = std::stoll(found.substr(found.find("least ") + 6));
    CHECK(outcome([&] { setting.run(options); }) == "done");
    setting.clear("small");
  }
}

TEST_CASE("a byte flipped in any buffer of any process fails the digest everywhere, and nothing is published") {
  const Setting setting;
  for (const std::string tensor : {"rows", "columns", "converted"}) {
    CAPTURE(tensor);
    CHECK(try_mischief(setting, Transport::kDirect, tensor, false, "E_DIGEST exit 70") > 0);
    const int happened = try_mischief(setting, exchanging(), tensor, false, "E_DIGEST exit 70");
    // What is packed and received on a GPU the host does not see.
    CHECK(happened >= (world().size() > 1 && exchanging() == Transport::kMpi ? 4 : 2));
  }
}

TEST_CASE("what fails on one process ends all of them within seconds with its exit code") {
  const Setting setting;
  const auto begin = std::chrono::steady_clock::now();
  for (const Transport transport : {Transport::kDirect, exchanging()})
    CHECK(try_mischief(setting, transport, "rows", true, "E_IO exit 5") > 0);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(100));
}

TEST_CASE("a run that failed is continued, by as many processes or by one, to the bytes of a run that did not") {
  const Setting setting;
  for (const char* const format : {"safetensors", "hdf5"}) {
    setting.run_alone("alone", format);
    for (const Transport transport : {Transport::kDirect, exchanging()})
      for (const std::string tensor : {"columns", "packed", "whole"})
        for (const bool alone : {false, true}) {
          CAPTURE(format);
          CAPTURE(name(transport));
          CAPTURE(tensor);
          CAPTURE(alone);
          // The last process fails at the first buffer of a tensor; what all had written by then is in their journals.
          Mischief mischief(BufferStage::kUnpacked, tensor, 0, true);
          pipeline::RunOptions options = setting.options("continued", transport);
          options.prepare.plan.target_format = format;
          options.prepare.memory_bytes = small_memory();
          options.staging.resume = true;
          if (world().rank() == world().size() - 1) options.hooks = &mischief;
          const std::string failed = outcome([&] { setting.run(options); });
          CHECK(is_same_everywhere(failed));
          CHECK(setting.exists("continued") == (failed == "done"));
          world().barrier();
          if (failed != "done" && alone) {
            setting.run_alone("continued", format);
          } else {
            options.hooks = nullptr;
            pipeline::RunResult result;
            CHECK(outcome([&] { result = setting.run(options); }) == "done");
            CHECK(result.start == (failed == "done" ? pipeline::Start::kFinished : pipeline::Start::kContinue));
            if (failed != "done" && world().size() == 1 && tensor == "whole") CHECK(result.bytes_resumed > 0);
          }
          world().barrier();
          CHECK(setting.different("alone", "continued") == "");
          setting.clear("continued");
        }
    setting.clear("alone");
  }
}

TEST_CASE("random plans give every process count what the oracle counts") {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    random_layouts::Random random(seed);
    const std::vector<std::string>& wishes = plan_cases::features();
    const plan_cases::PlanCase c = plan_cases::draw(random, wishes[seed % wishes.size()]);
    const std::string text = c.text(0, 1);
    const std::string where = fmt::format("seed {}\n{}", seed, text);
    CAPTURE(where);
    const Setting setting(text);
    if (world().rank() == 0) {
      fs::remove_all(setting.source());
      for (layout::Index rank = 0; rank < c.sides[0].world(); ++rank) {
        minimal::Tensors file;
        for (const plan_cases::Tensor& tensor : c.tensors)
          if (tensor.sides[0].present[static_cast<std::size_t>(rank)])
            file[tensor.sides[0].name] = {std::string(name(tensor.sides[0].dtype)), tensor.stored_shape(0, rank),
                                          tensor.stored(0, rank, true)};
        minimal::write(setting.source() / c.sides[0].file(rank), c.sides[0].format, file);
      }
    }
    world().barrier();
    setting.run_alone("alone");
    for (const Transport transport : {Transport::kDirect, exchanging()}) {
      pipeline::RunOptions options = setting.options("together", transport);
      options.prepare.memory_bytes = seed % 2 == 0 ? 1 << 29 : 1 << 17;
      CHECK(outcome([&] { setting.run(options); }) == "done");
      world().barrier();
      CHECK(setting.different("alone", "together") == "");
      setting.clear("together");
    }
  }
}
