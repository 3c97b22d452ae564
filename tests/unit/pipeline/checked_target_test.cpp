// A finished target that is changed: what verify and compare say of it.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshard/format/safetensors/safetensors.hpp"
#include "reshard/pipeline/compare.hpp"
#include "reshard/pipeline/differences.hpp"
#include "reshard/pipeline/run.hpp"
#include "reshard/pipeline/verify.hpp"
#include "support/cut_text.hpp"
#include "unit/pipeline/checkpoint_fixtures.hpp"

using namespace reshard;
using pipeline::CompareResult;
using pipeline::Quality;
using pipeline::TargetProblem;
using pipeline::TensorDifference;

namespace {

std::string rank_file(int rank) {
  return "rank-0000" + std::to_string(rank) + ".safetensors";
}

/// Where a tensor begins in a file.
std::int64_t offset_of(const fs::path& path, std::string_view tensor) {
  const format::FileCatalog catalog = format::make_safetensors()->read_catalog(path, {});
  const auto found = std::ranges::find(catalog.tensors, tensor, &format::StoredTensor::name);
  return found->offset.value();
}

/// Stored elements from `first` on.
template <typename T>
void put(const fs::path& path, std::string_view tensor, std::int64_t first, const std::vector<T>& values) {
  const auto element_bytes = static_cast<std::int64_t>(sizeof(T));
  File::open_to_write(path).write(offset_of(path, tensor) + first * element_bytes, std::as_bytes(std::span(values)));
}

/// Three tensors whose elements are their row-major positions, on two ranks; six ranks hold them twice: rows, columns,
/// and numbers of another dtype.
struct Finished {
  test::TemporaryDirectory root;
  fs::path plan = root / "plan.yaml";
  fs::path source = root / "source";
  fs::path target = root / "target";

  Finished() {
    fs::create_directory(source);
    for (int rank : {0, 1}) {
      const fs::path path = source / rank_file(rank);
      test::write_checkpoint(path, {{"columns", Dtype::kI32, {6, 30}, {6, 60}},
                                    {"numbers", Dtype::kF32, {6}, {12}},
                                    {"rows", Dtype::kI32, {30, 8}, {60, 8}}});
      std::vector<std::int32_t> rows(240);
      std::iota(rows.begin(), rows.end(), rank * 240);
      put(path, "rows", 0, rows);
      for (int row = 0; row < 6; ++row) {
        std::vector<std::int32_t> part(30);
        std::iota(part.begin(), part.end(), row * 60 + rank * 30);
        put(path, "columns", row * 30, part);
      }
      std::vector<float> numbers(6);
      std::iota(numbers.begin(), numbers.end(), static_cast<float>(rank * 6));
      put(path, "numbers", 0, numbers);
    }
    write_text(plan,
               "reshard: 1\nsource: {axes: [tp=2]}\ntarget: {axes: [dp=2, tp=3]}\n"
               "tensors: [{match: rows, shard: {0: tp}}, {match: columns, shard: {1: tp}}, "
               "{match: numbers, dtype: f64, shard: {0: tp}}]\n");
    pipeline::RunOptions options;
    options.prepare.plan_file = plan;
    options.prepare.source = source;
    options.prepare.target = target;
    options.tool = "reshard test";
    const auto alone = exchange::alone();
    pipeline::run(options, test::test_formats(), *alone);
  }

  pipeline::Verification verification(std::int64_t memory_bytes = 1 << 20) const {
    pipeline::VerifyOptions options;
    options.directory = target;
    options.read.memory_bytes = memory_bytes;
    const auto alone = exchange::alone();
    return pipeline::verify(options, test::test_formats(), *alone);
  }
  /// "E_DIGEST rank-00000.safetensors rows", a line for each problem.
  std::vector<std::string> problems(std::int64_t memory_bytes = 1 << 20) const {
    std::vector<std::string> out;
    for (const TargetProblem& problem : verification(memory_bytes).problems)
      out.push_back(std::string(code_name(problem.code)) + " " + problem.file + " " + problem.tensor.value_or("-"));
    std::ranges::sort(out);
    return out;
  }
};

CompareResult compared(const fs::path& a, const fs::path& b, const std::optional<fs::path>& plan = {}) {
  pipeline::CompareOptions options;
  options.a = a;
  options.b = b;
  options.plan = plan;
  const auto alone = exchange::alone();
  return pipeline::compare(options, test::test_formats(), *alone);
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a target that nobody has touched is right, in pieces of any size") {
  const Finished finished;
  std::int64_t bytes = 0;
  for (int rank = 0; rank < 6; ++rank)
    bytes += static_cast<std::int64_t>(fs::file_size(finished.target / rank_file(rank)));
  for (const std::int64_t memory : {std::int64_t{1} << 20, std::int64_t{1000}, std::int64_t{7}}) {
    CAPTURE(memory);
    const pipeline::Verification found = finished.verification(memory);
    CHECK(found.problems.empty());
    CHECK(found.files == 6);
    CHECK(found.tensors == 3);
    CHECK(found.bytes == bytes);
  }
  CHECK(compared(finished.source, finished.target, finished.plan).equal == 3);
  CHECK(compared(finished.target, finished.target).equal == 3);
}

TEST_CASE("a changed copy is told by its file's digest and by the other copy") {
  const Finished finished;
  fs::copy(finished.target, finished.root / "good", fs::copy_options::recursive);
  const fs::path changed = finished.target / rank_file(4);  // rows 20 to 39, columns 20 to 39, numbers 4 to 7
  put<std::int32_t>(changed, "rows", 13, {-1, -2});
  put<std::int32_t>(changed, "columns", 3 * 20 + 7, {-3});
  put<double>(changed, "numbers", 3, {7.5});
  for (const std::int64_t memory : {std::int64_t{1} << 20, std::int64_t{100}})
    CHECK(finished.problems(memory) ==
          Lines{"E_DIGEST rank-00004.safetensors -", "E_DIGEST rank-00004.safetensors columns",
                "E_DIGEST rank-00004.safetensors numbers", "E_DIGEST rank-00004.safetensors rows"});
  for (const TargetProblem& problem : finished.verification().problems)
    if (problem.tensor) CHECK(problem.expected == "the copy in rank-00001.safetensors");

  const std::string before = rank_file(0);
  const std::string behind = rank_file(4);
  const CompareResult planned = compared(finished.source, finished.target, finished.plan);
  CHECK(planned.equal == 0);
  CHECK(planned.different ==
        std::vector<TensorDifference>{{"columns", Quality::kValue, Shape{3, 27}, "207", "-3", before, behind},
                                      {"numbers", Quality::kValue, Shape{7}, "7", "7.5", rank_file(1), behind},
                                      {"rows", Quality::kValue, Shape{21, 5}, "173", "-1", before, behind}});
  // The other way round, where the side that is read once has the copies.
  const CompareResult turned = compared(finished.target, finished.root / "good");
  REQUIRE(turned.different.size() == 3);
  CHECK(turned.different[2].at == Shape{21, 5});
  CHECK(turned.different[2].a == "-1");
  CHECK(turned.different[2].b == "173");
  CHECK(turned.different[2].file_a == behind);
}

TEST_CASE("where both copies are changed alike the tensor's own digest tells, and a file where only one can be meant") {
  const Finished finished;
  for (const int rank : {1, 4}) put<std::int32_t>(finished.target / rank_file(rank), "rows", 0, {-1});
  CHECK(finished.problems() == Lines{"E_DIGEST rank-00001.safetensors -", "E_DIGEST rank-00001.safetensors rows",
                                     "E_DIGEST rank-00004.safetensors -"});
  for (const int rank : {2, 5}) put<std::int32_t>(finished.target / rank_file(rank), "rows", 0, {-1});
  CHECK(finished.problems() == Lines{"E_DIGEST  rows", "E_DIGEST rank-00001.safetensors -",
                                     "E_DIGEST rank-00002.safetensors -", "E_DIGEST rank-00004.safetensors -",
                                     "E_DIGEST rank-00005.safetensors -"});
}

TEST_CASE("files that are gone, of another size or too many are told") {
  const Finished finished;
  fs::remove(finished.target / rank_file(0));
  fs::resize_file(finished.target / rank_file(1), fs::file_size(finished.target / rank_file(1)) - 1);
  fs::resize_file(finished.target / rank_file(2), fs::file_size(finished.target / rank_file(2)) + 1);
  write_text(finished.target / "extra", "x");
  const pipeline::Verification found = finished.verification();
  CHECK(found.files == 5);
  CHECK(finished.problems() == Lines{"E_DIFFERENT extra -", "E_DIGEST rank-00001.safetensors -",
                                     "E_DIGEST rank-00002.safetensors -", "E_MISSING rank-00000.safetensors -"});
}

TEST_CASE("a tensor of another name is one too many and one too few, in a file that is there") {
  const Finished finished;
  const fs::path path = finished.target / rank_file(3);
  std::string header(300, '\0');
  File::open_to_read(path).read(0, std::as_writable_bytes(std::span(header)));
  const auto at = static_cast<std::int64_t>(header.find("\"rows\"") + 1);
  File::open_to_write(path).write(at, std::as_bytes(std::span(std::string_view("r0ws"))));
  CHECK(finished.verification().files == 6);
  CHECK(finished.problems() == Lines{"E_DIFFERENT rank-00003.safetensors r0ws", "E_DIGEST rank-00003.safetensors -",
                                     "E_MISSING rank-00003.safetensors rows"});
}

TEST_CASE("what is no finished target is refused for what it is") {
  const Finished finished;
  const auto refusal = [&](const fs::path& directory) {
    pipeline::VerifyOptions options;
    options.directory = directory;
    const auto alone = exchange::alone();
    try {
      pipeline::verify(options, test::test_formats(), *alone);
    } catch (const Error& error) {
      return error.issues().front().message;
    }
    return std::string();
  };
  CHECK(refusal(finished.root / "nowhere") == "there is no such directory");
  CHECK(refusal(finished.plan) == "is no directory: a finished target is one");
  CHECK(refusal(finished.source) == "has no reshard.json: it is no finished target");
}

TEST_CASE("tensors of one side alone, of another dtype or shape are told") {
  const test::TemporaryDirectory root;
  test::write_checkpoint(root / "a.safetensors", {{"b", Dtype::kI32, {2}, {2}},
                                                  {"a", Dtype::kI32, {2}, {2}},
                                                  {"dtype", Dtype::kI32, {2}, {2}},
                                                  {"shape", Dtype::kI32, {2}, {2}},
                                                  {"same", Dtype::kI32, {2}, {2}}});
  test::write_checkpoint(root / "b.safetensors", {{"d", Dtype::kI32, {2}, {2}},
                                                  {"c", Dtype::kI32, {2}, {2}},
                                                  {"dtype", Dtype::kF32, {2}, {2}},
                                                  {"shape", Dtype::kI32, {1, 2}, {1, 2}},
                                                  {"same", Dtype::kI32, {2}, {2}}});
  const CompareResult found = compared(root / "a.safetensors", root / "b.safetensors");
  CHECK(found.equal == 1);
  CHECK(found.only_in_a == Lines{"a", "b"});
  CHECK(found.only_in_b == Lines{"c", "d"});
  CHECK(found.different == std::vector<TensorDifference>{
                               {"dtype", Quality::kDtype, {}, "i32", "f32", "a.safetensors", "b.safetensors"},
                               {"shape", Quality::kShape, {}, "[2]", "[1, 2]", "a.safetensors", "b.safetensors"}});
}

TEST_CASE("what several ranks hold are copies, padding is none") {
  const auto layout = [](const layout::DimCut& cut, layout::Index length, layout::Index ranks) {
    return layout::lay_out({length}, {{cut}, {}}, layout::Mesh({{"tp", ranks}}, {}));
  };
  CHECK_FALSE(pipeline::has_copies(layout(cut_text::cut("tp", 2), 8, 2)));
  CHECK(pipeline::has_copies(layout({}, 8, 2)));
  CHECK_FALSE(pipeline::has_copies(layout({}, 8, 1)));
  CHECK_FALSE(
      pipeline::has_copies(layout(cut_text::cut("tp", 2, [](layout::Level& level) { level.pad_to = 4; }), 6, 2)));
  CHECK(pipeline::coordinates_of({3, 4, 5}, 59) == Shape{2, 3, 4});
  CHECK(pipeline::coordinates_of({3, 4, 5}, 25) == Shape{1, 1, 0});
  CHECK(pipeline::coordinates_of({}, 0).empty());
}
TEST_CASE("by a plan tensors are compared under the names and on the ranks that it gives them") {
  const test::TemporaryDirectory root;
  for (const char* folder : {"source", "target"}) fs::create_directory(root / folder);
  test::write_checkpoint(root / "source" / "model.safetensors", {{"a", Dtype::kI32, {2}, {2}},
                                                                 {"b", Dtype::kI32, {2}, {2}},
                                                                 {"c", Dtype::kI32, {2}, {2}},
                                                                 {"d", Dtype::kI32, {2}, {2}},
                                                                 {"e", Dtype::kI32, {2}, {2}}});
  write_text(
      root / "plan.yaml",
      "reshard: 1\nsource: {axes: [tp=1]}\ntarget: {axes: [tp=2]}\n"
      "tensors: [{match: a, rename: z, shard: {0: tp}}, {match: b, rename: y, shard: {0: tp}}, "
      "{match: c, rename: x, shard: {0: tp}}, {match: d, rename: w, shard: {0: tp}}, {match: e, shard: {0: tp}}]\n");
  const auto write_target = [&](int rank, Dtype x, layout::Index w, std::vector<format::NewTensor> more) {
    more.push_back({"x", x, {1}, {1}});
    more.push_back({"w", Dtype::kI32, {w}, {w}});
    test::write_checkpoint(root / "target" / rank_file(rank), std::move(more));
  };
  const format::NewTensor e = {"e", Dtype::kI32, {1}, {1}};
  write_target(0, Dtype::kI32, 1, {e});
  write_target(1, Dtype::kF32, 3, {e, {"k", Dtype::kI32, {1}, {1}}});
  const CompareResult found = compared(root / "source", root / "target", root / "plan.yaml");
  CHECK(found.equal == 1);
  CHECK(found.only_in_a == Lines{"y", "z"});
  CHECK(found.only_in_b == Lines{"k"});
  CHECK(found.different == std::vector<TensorDifference>{
                               {"w", Quality::kShape, {}, "[1] of [2]", "[3]", "model.safetensors", rank_file(1)},
                               {"x", Quality::kDtype, {}, "i32", "f32", "model.safetensors", rank_file(1)}});
  // On one of two ranks alone it is no tensor of the plan.
  write_target(1, Dtype::kI32, 1, {});
  CHECK(test::code_of([&] { compared(root / "source", root / "target", root / "plan.yaml"); }) == "E_MISSING");
}
