#include "reshard/format/hdf5/child.hpp"

#include <doctest/doctest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <chrono>
#include <random>

#include "reshard/format/hdf5/hdf5.hpp"
#include "reshard/format/hdf5/wire.hpp"
#include "unit/format/hdf5_fixtures.hpp"

using namespace reshard;
using namespace reshard::format;

namespace {

/// An executable that is no child of ours.
fs::path script(const TemporaryDirectory& dir, std::string_view commands) {
  write_bytes(dir / "child.sh", "#!/bin/sh\n" + std::string(commands) + '\n');
  REQUIRE(::chmod((dir / "child.sh").c_str(), 0755) == 0);
  return dir / "child.sh";
}

Issue issue_with(const fs::path& binary, std::optional<std::chrono::milliseconds> patience = {}) {
  hdf5::Child child(binary, patience);
  return issue_of([&] { child.catalog(h5_case("scalars") / "model.h5", {}); });
}

/// Reads whatever can be read: every outcome but a result or an error of the file's is a fault.
void read_all(const fs::path& path) {
  try {
    const FileCatalog catalog = hdf5_child().read_catalog(path, {});
    const std::unique_ptr<TensorReader> reader = hdf5_child().open(path, {});
    for (const StoredTensor& tensor : catalog.tensors) {
      const std::int64_t bytes = payload_bytes(tensor.dtype, tensor.shape);
      Bytes out(static_cast<std::size_t>(std::min<std::int64_t>(bytes, 1 << 20)));
      reader->read(tensor, bytes - std::ssize(out), out);
    }
  } catch (const Error& error) {
    const Issue& issue = error.issues().front();
    CAPTURE(to_line(issue));
    CHECK((default_exit(issue.code) == Exit::kCheckpoint || default_exit(issue.code) == Exit::kIo));
    CHECK(issue.where.find(path.string()) == 0);
  }
}

}  // namespace

TEST_CASE("hdf5 child: one that crashes is an error of the file, and the next request starts another") {
  const TemporaryDirectory dir;
  const Issue issue = issue_with(script(dir, "kill -SEGV $$"));
  CHECK(issue.code == ErrorCode::kFormat);
  CHECK(issue.where == (h5_case("scalars") / "model.h5").string());
  CHECK_MESSAGE(issue.message.find("signal 11") != std::string::npos, issue.message);
  hdf5::Child child(script(dir, "kill -SEGV $$"));
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(child.catalog(h5_case("scalars") / "model.h5", {}), Error);
}

TEST_CASE("hdf5 child: silence, nonsense and early ends are errors of the file") {
  const TemporaryDirectory dir;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(issue_with(script(dir, "exec sleep 100"), std::chrono::milliseconds(500))
            .message.find("does not come to an end") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK(issue_with(script(dir, "exit 3")).message.find("code 3") != std::string::npos);
  CHECK(issue_with(script(dir, "echo this is no answer at all >&0")).code == ErrorCode::kFormat);
  // A length of 5, "done", and bytes that are no catalog.
  CHECK(issue_with(script(dir, R"(printf '\005\0\0\0\0\0\0\0\0abcd' >&0)")).code == ErrorCode::kFormat);
  // "failed", and bytes that are no issues.
  CHECK(issue_with(script(dir, R"(printf '\005\0\0\0\0\0\0\0\001abcd' >&0)")).code == ErrorCode::kFormat);
}

TEST_CASE("hdf5 child: a binary that is not there is an input error") {
  CHECK(issue_with("/nowhere/reshard").code == ErrorCode::kIo);
}

TEST_CASE("hdf5 child: it serves one file after another, and tells faults by the path that was given") {
  hdf5::Child child(test_binary());
  for (int i = 0; i < 3; ++i) {
    CHECK(child.catalog(h5_case("scalars") / "model.h5", {}).tensors.size() == 3);
    CHECK(child.catalog(h5_case("libver_latest") / "model.h5", {}).tensors.size() == 53);
    CHECK(issue_of([&] { child.catalog(h5_case("convert.py"), {}); }).where == h5_case("convert.py").string());
  }
  const fs::path relative = fs::relative(h5_case("never_written") / "model.h5");
  CHECK(child.catalog(relative, {}).refusals.at(0).issue.where == relative.string());
}

TEST_CASE("hdf5 child: a lock that somebody holds on the file does not keep it from being read") {
  const TemporaryDirectory dir;
  fs::copy_file(h5_case("scalars") / "model.h5", dir / "model.h5");
  const File holder = File::open_to_read(dir / "model.h5");
  REQUIRE(::flock(holder.descriptor(), LOCK_EX) == 0);
  CHECK(hdf5_child().read_catalog(dir / "model.h5", {}).tensors.size() == 3);
}

TEST_CASE("hdf5 child: decoders refuse what no encoder makes") {
  namespace wire = hdf5::wire;
  FileCatalog catalog = hdf5_here().read_catalog(h5_case("user_block") / "model.h5", {});
  catalog.axes = {"tp=2"};
  catalog.rank = 1;
  const std::string good = wire::encode(catalog);
  CHECK(wire::encode(wire::decode_catalog(good).value()) == good);
  for (std::size_t length = 0; length < good.size(); ++length) CHECK(!wire::decode_catalog(good.substr(0, length)));
  CHECK(!wire::decode_catalog(good + 'x'));
  FileCatalog outside = catalog;
  outside.tensors.at(0).offset = outside.bytes;
  CHECK(!wire::decode_catalog(wire::encode(outside)));
  FileCatalog huge = catalog;
  huge.tensors.at(0).shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  CHECK(!wire::decode_catalog(wire::encode(huge)));
  const std::string issues = wire::encode(std::vector<Issue>{{ErrorCode::kFormat, "a.h5", kNoTensor, "is cut short"},
                                                             {ErrorCode::kLink, "a.h5", "", "is a link"},
                                                             {ErrorCode::kLink, "a.h5", "w", "is a link"}});
  CHECK(wire::encode(wire::decode_issues(issues).value()) == issues);
  CHECK(wire::decode_issues(issues)->at(0).tensor == std::nullopt);
  CHECK(wire::decode_issues(issues)->at(1).tensor == "");
  for (std::size_t length = 0; length < issues.size(); ++length) CHECK(!wire::decode_issues(issues.substr(0, length)));
  CHECK(!wire::decode_issues(std::string(8, '\xff')));
  CHECK(!wire::decode_request("short"));
}

TEST_CASE("hdf5 child: a file cut anywhere is refused") {
  const TemporaryDirectory dir;
  for (const char* const name : {"libver_latest", "keras_weights", "user_block", "chunked_gzip_shuffle"}) {
    const Bytes whole = file_bytes(h5_case(name) / "model.h5");
    for (const int percent : {5, 20, 40, 60, 80, 99}) {
      CAPTURE(name);
      CAPTURE(percent);
      fs::copy_file(h5_case(name) / "model.h5", dir / "cut.h5", fs::copy_options::overwrite_existing);
      fs::resize_file(dir / "cut.h5", whole.size() * static_cast<std::size_t>(percent) / 100);
      const Issue issue = issue_of([&] { hdf5_child().read_catalog(dir / "cut.h5", {}); });
      CHECK(issue.code == ErrorCode::kFormat);
      CHECK(issue.where == (dir / "cut.h5").string());
    }
  }
}

TEST_CASE("hdf5 child: flipped bytes give a result or an error, never a crash or a hang") {
  const TemporaryDirectory dir;
  hdf5_here().create(dir / "ours.h5",
                     {{{"a/b", Dtype::kF32, {4}, {4}}, {"%", Dtype::kBf16, {2, 3}, {2, 3}}}, {}, {"tp=2"}}, 0);
  std::mt19937 random(20240229);
  for (const fs::path& source :
       {dir / "ours.h5", h5_case("libver_latest") / "model.h5", h5_case("keras_weights") / "model.h5",
        h5_case("chunked_gzip_shuffle") / "model.h5", h5_case("types") / "model.h5", h5_case("virtual") / "model.h5"}) {
    const Bytes whole = file_bytes(source);
    for (int round = 0; round < 60; ++round) {
      CAPTURE(source);
      CAPTURE(round);
      Bytes flipped = whole;
      const std::size_t flips = 1 + random() % 8;
      for (std::size_t i = 0; i < flips; ++i)
        flipped[random() % std::min<std::size_t>(flipped.size(), 65536)] = static_cast<std::byte>(random());
      File::create(dir / "flipped.h5").write(0, flipped);
      read_all(dir / "flipped.h5");
    }
  }
}
