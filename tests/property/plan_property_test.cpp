// Random plans that mix all of the plan language, run from files to files. The sources are written, and the targets
// read, by the plainest code there is; what must be in them comes from the naive oracle. RESHARD_TEST_SEED sets the
// seed, RESHARD_PROPERTY_CASES the number of cases; a failing case is printed with both and its plan.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/crc64.hpp"
#include "reshard/format/hdf5/hdf5.hpp"
#include "reshard/format/safetensors/safetensors.hpp"
#include "reshard/pipeline/run.hpp"
#include "support/minimal_files.hpp"
#include "support/plan_cases.hpp"
#include "support/temporary_directory.hpp"

using namespace reshard;
using plan_cases::PlanCase;
using random_layouts::Random;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given ? std::strtoull(given, nullptr, 10) : otherwise;
}

const pipeline::Formats& formats() {
  static const pipeline::Formats all = [] {
    std::vector<std::unique_ptr<format::FileFormat>> list;
    list.push_back(format::make_hdf5("/proc/self/exe"));
    list.push_back(format::make_safetensors());
    return pipeline::Formats(std::move(list));
  }();
  return all;
}

/// The files of one side, by name.
std::map<std::string, minimal::Tensors> files_of(const PlanCase& c, std::size_t side, bool as_source) {
  std::map<std::string, minimal::Tensors> out;
  for (layout::Index rank = 0; rank < c.sides[side].world(); ++rank) {
    minimal::Tensors& file = out[c.sides[side].file(rank)];
    for (const plan_cases::Tensor& tensor : c.tensors) {
      const plan_cases::Stored& stored = tensor.sides[side];
      if ((tensor.dropped && !as_source) || !stored.present[static_cast<std::size_t>(rank)]) continue;
      file[stored.name] = {std::string(name(stored.dtype)), tensor.stored_shape(side, rank),
                           tensor.stored(side, rank, as_source)};
    }
  }
  return out;
}

class Trial {
 public:
  Trial(const PlanCase& c, Random& random) : case_(c), random_(random) {}

  /// Runs the plan between two sides; the way it is run is drawn too.
  void run(std::size_t from, std::size_t to, const std::string& source, const std::string& target) {
    const fs::path plan = root_.path() / (target + (random_.chance(50) ? ".yaml" : ".json"));
    const std::string text = case_.text(from, to);
    CAPTURE(text);
    write_text(plan, text);
    pipeline::RunOptions options;
    options.prepare.plan_file = plan;
    options.prepare.source = root_.path() / source;
    options.prepare.transport =
        random_.one_of<pipeline::Transport>({pipeline::Transport::kDirect, pipeline::Transport::kMpi});
    options.prepare.threads = static_cast<int>(random_.between(1, 3));
    options.prepare.memory_bytes = random_.one_of<std::int64_t>({1 << 29, 1 << 15, 1 << 13});
    options.prepare.target = root_.path() / target;
    options.tool = "reshard test";
    const auto alone = exchange::alone();
    std::string fault;
    try {
      try {
        pipeline::run(options, formats(), *alone);
      } catch (const Error& error) {
        if (error.issues().front().code != ErrorCode::kMemory) throw;
        options.prepare.memory_bytes = 1 << 29;
        pipeline::run(options, formats(), *alone);
      }
    } catch (const Error& error) {
      for (const Issue& issue : error.issues()) fault += to_line(issue) + "\n";
    }
    CAPTURE(text);
    REQUIRE(fault == "");
  }

  void write_source(std::size_t side, const std::string& directory) {
    for (const auto& [name, tensors] : files_of(case_, side, true))
      minimal::write(root_.path() / directory / name, case_.sides[side].format, tensors);
  }

  /// Every file of a finished target, element by element, and its manifest's digests.
  void check_target(std::size_t side, const std::string& directory) {
    const std::map<std::string, minimal::Tensors> expected = files_of(case_, side, false);
    std::vector<std::string> names;
    for (const auto& [name, tensors] : expected) names.push_back(name);
    names.push_back("reshard.json");
    std::sort(names.begin(), names.end());
    CHECK(list(directory) == names);

    const fs::path root = root_.path() / directory;
    for (const auto& [name, tensors] : expected) {
      CAPTURE(name);
      const minimal::Tensors found = minimal::read(root / name, case_.sides[side].format);
      CHECK(found.size() == tensors.size());
      for (const auto& [tensor_name, tensor] : tensors) {
        CAPTURE(tensor_name);
        REQUIRE(found.contains(tensor_name));
        const minimal::Tensor& other = found.at(tensor_name);
        CHECK(other.shape == tensor.shape);
        if (!other.dtype.empty()) CHECK(other.dtype == tensor.dtype);
        const bool same_bytes = other.bytes == tensor.bytes;
        CHECK(same_bytes);
      }
    }
    const auto manifest = nlohmann::json::parse(read_text(root / "reshard.json", 1 << 24));
    for (const plan_cases::Tensor& tensor : case_.tensors) {
      if (tensor.dropped) continue;
      CAPTURE(tensor.names[side]);
      REQUIRE(manifest["tensors"].contains(tensor.names[side]));
      const auto& entry = manifest["tensors"][tensor.names[side]];
      CHECK(entry["shape"].get<Shape>() == tensor.shape);
      CHECK(entry["digest"] == crc64::to_hex(crc64::digest(tensor.logical(side))));
    }
    for (const auto& [name, tensors] : expected) {
      const std::vector<std::byte> bytes = minimal::read_bytes(root / name);
      CHECK(manifest["file_list"][name]["bytes"] == bytes.size());
      CHECK(manifest["file_list"][name]["digest"] == crc64::to_hex(crc64::digest(bytes)));
    }
  }

  /// A finished target speaks for itself: from it alone, the whole of every tensor.
  void check_full(std::size_t side, const std::string& directory) {
    const fs::path full = root_.path() / (directory + "-full");
    pipeline::RunOptions options;
    options.prepare.plan_file = root_.path() / (directory + "-full.yaml");
    write_text(
        options.prepare.plan_file,
        "{reshard: 1, target: {axes: [], format: safetensors, files: all}, tensors: [{match: '**', optional: true}]}");
    options.prepare.source = root_.path() / directory;
    options.prepare.target = full;
    options.tool = "reshard test";
    const auto alone = exchange::alone();
    pipeline::run(options, formats(), *alone);
    minimal::Tensors expected;
    for (const plan_cases::Tensor& tensor : case_.tensors)
      if (!tensor.dropped)
        expected[tensor.names[side]] = {std::string(name(tensor.sides[side].dtype)), tensor.shape,
                                        tensor.logical(side)};
    const bool same = minimal::read(full / "all", "safetensors") == expected;
    CHECK(same);
  }

  /// Equal files, manifests apart.
  void check_equal(const std::string& a, const std::string& b) {
    const std::vector<std::string> names = list(a);
    CHECK(list(b) == names);
    for (const std::string& name : names) {
      if (name == "reshard.json") continue;
      CAPTURE(name);
      const bool same_bytes =
          minimal::read_bytes(root_.path() / a / name) == minimal::read_bytes(root_.path() / b / name);
      CHECK(same_bytes);
    }
  }

 private:
  std::vector<std::string> list(const std::string& directory) const {
    std::vector<std::string> out;
    const fs::path root = root_.path() / directory;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root))
      if (!entry.is_directory()) out.push_back(entry.path().lexically_relative(root).string());
    std::sort(out.begin(), out.end());
    return out;
  }

  const PlanCase& case_;
  Random& random_;
  test::TemporaryDirectory root_;
};

}  // namespace

TEST_CASE("whatever a plan says, every stored element of the target is the one the oracle counts") {
  const std::uint64_t seed = from_environment("RESHARD_TEST_SEED", 20260901);
  const std::uint64_t cases = from_environment("RESHARD_PROPERTY_CASES", 500);
  std::map<std::string, std::uint64_t> shown;
  for (std::uint64_t i = 0; i < cases; ++i) {
    // Every case has a seed of its own: RESHARD_TEST_SEED=<that> RESHARD_PROPERTY_CASES=1 runs it alone.
    const std::uint64_t own = seed + i;
    Random random(own);
    const std::vector<std::string>& wishes = plan_cases::features();
    const PlanCase c = plan_cases::draw(random, wishes[own % wishes.size()]);
    const std::string where =
        fmt::format("RESHARD_TEST_SEED={} RESHARD_PROPERTY_CASES=1; shows {}", own, fmt::join(c.features, ", "));
    CAPTURE(where);
    for (const std::string& feature : c.features) ++shown[feature];

    Trial trial(c, random);
    trial.write_source(0, "a");
    trial.run(0, 1, "a", "b");
    trial.check_target(1, "b");
    if (i % 2 == 1) trial.check_full(1, "b");
    if (i % 4 == 0) {  // there and back again
      trial.run(1, 0, "b", "a2");
      trial.check_target(0, "a2");
      trial.run(0, 1, "a2", "b2");
      trial.check_equal("b", "b2");
    }
    if (i % 4 == 2) {  // by way of another layout
      trial.run(1, 2, "b", "c");
      trial.check_target(2, "c");
      trial.run(0, 2, "a", "c2");
      trial.check_equal("c", "c2");
    }
  }
  if (cases < 100) return;
  for (int section = 4; section <= 9; ++section) {
    const std::string feature = fmt::format("section {}", section);
    CAPTURE(feature);
    CHECK(shown[feature] * 20 >= cases);
  }
  for (const std::string& feature : plan_cases::features()) {
    CAPTURE(feature);
    CHECK(shown[feature] * 20 >= cases);
  }
  for (const auto& [what, count] : shown) MESSAGE(what, ": ", count);
}

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == format::kHdf5ChildArgument) return format::run_hdf5_child(argc, argv);
  return doctest::Context(argc, argv).run();
}
