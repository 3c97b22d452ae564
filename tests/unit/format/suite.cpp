#include "unit/format/suite.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "unit/format/fixtures.hpp"

namespace reshard::format::suite {
namespace {

NewTensor new_tensor(std::string name, Dtype dtype, Shape shape) {
  NewTensor tensor{std::move(name), dtype, shape, shape};
  for (std::int64_t& extent : tensor.global_shape) extent *= 2;
  return tensor;
}

/// Writes the tensors, reads all back and compares names, dtypes, shapes and bytes; through the offsets too.
void check_round_trip(const FileFormat& format, const std::vector<NewTensor>& tensors) {
  const TemporaryDirectory dir;
  const fs::path path = dir / "file";
  write_file(format, path, {tensors, {{"note", "two\nlines"}}, {"dp=1", "tp=2"}});

  const FileCatalog catalog = format.read_catalog(path, {});
  CHECK(catalog.bytes == File::open_to_read(path).size());
  CHECK(catalog.refusals.empty());
  CHECK(std::ranges::is_sorted(catalog.tensors, {}, &StoredTensor::name));
  REQUIRE(catalog.tensors.size() == tensors.size());
  CHECK(format.recognises(path));

  const std::unique_ptr<TensorReader> reader = format.open(path, {});
  const File raw = File::open_to_read(path);
  for (const NewTensor& expected : tensors) {
    CAPTURE(expected.name);
    const StoredTensor& found = find_tensor(catalog, expected.name);
    CHECK(found.dtype == expected.dtype);
    CHECK(found.shape == expected.shape);
    CHECK(!found.big_endian);
    const std::int64_t bytes = payload_bytes(expected.dtype, expected.shape);
    const Bytes written = pattern_bytes(expected.name, bytes);
    CHECK(read_tensor(*reader, found) == written);
    CHECK(found.offset.has_value() == (bytes > 0));
    if (found.offset) {
      Bytes at_offset(written.size());
      raw.read(*found.offset, at_offset);
      CHECK(at_offset == written);
    }
  }
}

}  // namespace

void round_trips_every_dtype(const FileFormat& format, const std::vector<Dtype>& absent) {
  std::vector<NewTensor> tensors;
  for (const Dtype dtype : all_dtypes()) {
    NewTensor tensor = new_tensor("of_" + std::string(name(dtype)), dtype, {3, 5});
    if (std::ranges::find(absent, dtype) == absent.end()) {
      CHECK_NOTHROW(format.check(tensor));
      tensors.push_back(std::move(tensor));
    } else {
      const Issue issue = issue_of([&] { format.check(tensor); });
      CHECK(issue.code == ErrorCode::kDtype);
      CHECK(issue.tensor == tensor.name);
      CHECK(issue_of([&] { format.lay_out({{tensor}, {}, {}}); }) == issue);
      CHECK(issue.message.find(name(dtype)) != std::string::npos);
    }
  }
  check_round_trip(format, tensors);
}

void round_trips_scalars_and_zero_sizes(const FileFormat& format) {
  check_round_trip(format, {new_tensor("scale", Dtype::kF32, {}), new_tensor("step", Dtype::kI64, {}),
                            new_tensor("flag", Dtype::kF8E4M3, {0}), new_tensor("e", Dtype::kF32, {2, 0}),
                            new_tensor("e0", Dtype::kBf16, {0, 4, 3}), new_tensor("w", Dtype::kF32, {2, 2})});
  check_round_trip(format, {});
  check_round_trip(format, {new_tensor("only", Dtype::kF32, {0, 7})});
}

void round_trips_odd_names(const FileFormat& format) {
  std::vector<NewTensor> tensors;
  for (const char* const name : {"",
                                 ".",
                                 "..",
                                 "/",
                                 "//",
                                 "a/b",
                                 "a/c/d",
                                 "conv1",
                                 "conv1/bn",
                                 "conv1/bn/x",
                                 "conv10",
                                 "100%",
                                 "100%/w",
                                 "%2F",
                                 "a//b",
                                 "/lead",
                                 "trail/",
                                 "m.a.b",
                                 "x/./y",
                                 "x/../y",
                                 ".hidden",
                                 "new\nline",
                                 "quote\"back\\slash",
                                 "tab\t",
                                 "größe/層",
                                 "my layer/w",
                                 "kernel:0"})
    tensors.push_back(new_tensor(name, Dtype::kF32, {2, 3}));
  check_round_trip(format, tensors);
}

void reads_every_part_of_a_tensor(const FileFormat& format) {
  const TemporaryDirectory dir;
  const fs::path path = dir / "file";
  write_file(format, path, {{new_tensor("w", Dtype::kF32, {2, 3, 2})}, {}, {}});
  const FileCatalog catalog = format.read_catalog(path, {});
  const std::unique_ptr<TensorReader> reader = format.open(path, {});
  const Bytes whole = pattern_bytes("w", 48);
  for (std::int64_t first = 0; first <= 48; ++first)
    for (std::int64_t last = first; last <= 48; ++last) {
      Bytes part(static_cast<std::size_t>(last - first));
      reader->read(catalog.tensors.at(0), first, part);
      REQUIRE(part == Bytes(whole.begin() + first, whole.begin() + last));
    }
}

void reads_from_several_threads(const FileFormat& format) {
  const TemporaryDirectory dir;
  const fs::path path = dir / "file";
  write_file(format, path, {{new_tensor("a", Dtype::kF32, {64, 3}), new_tensor("b", Dtype::kU8, {999})}, {}, {}});
  const FileCatalog catalog = format.read_catalog(path, {});
  const std::unique_ptr<TensorReader> reader = format.open(path, {});
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      const StoredTensor& tensor = catalog.tensors[i % 2];
      for (int round = 0; round < 50; ++round)
        wrong += read_tensor(*reader, tensor) != pattern_bytes(tensor.name, payload_bytes(tensor.dtype, tensor.shape));
    });
  threads.clear();
  CHECK(wrong == 0);
}

void creates_the_same_bytes_again(const FileFormat& format) {
  const TemporaryDirectory dir;
  const NewFile file{{new_tensor("b/w", Dtype::kBf16, {300, 200}), new_tensor("a", Dtype::kF32, {7}),
                      new_tensor("b/x", Dtype::kBool, {}), new_tensor("c", Dtype::kU8, {0})},
                     {{"note", "x"}},
                     {"tp=2"}};
  const FileLayout planned = format.lay_out(file);
  const FileLayout made = format.create(dir / "made", file, 1);
  CHECK(planned.bytes == made.bytes);
  CHECK(planned.offsets == made.offsets);
  NewFile turned = file;
  std::ranges::reverse(turned.tensors);
  write_file(format, dir / "one", file);
  write_file(format, dir / "two", turned);
  CHECK(file_bytes(dir / "one") == file_bytes(dir / "two"));
}

void lays_out_more_than_memory_holds(const FileFormat& format) {
  const TemporaryDirectory dir;
  constexpr std::int64_t kRows = std::int64_t{3} << 30;
  const NewFile file{
      {new_tensor("a", Dtype::kBf16, {kRows, 1024}), new_tensor("b", Dtype::kBf16, {kRows, 1024})}, {}, {}};
  const FileLayout layout = format.lay_out(file);
  CHECK(layout.bytes >= 2 * 2048 * kRows);
  CHECK(layout.offsets[1] >= layout.offsets[0] + 2048 * kRows);
}

void refuses_what_is_no_file_of_the_format(const FileFormat& format) {
  const TemporaryDirectory dir;
  const auto refused = [&](std::string_view name, ErrorCode code) {
    CAPTURE(name);
    const fs::path path = dir / name;
    const Issue issue = issue_of([&] { format.read_catalog(path, {}); });
    CHECK(issue.code == code);
    CHECK(issue.where.find(path.string()) == 0);
  };
  write_bytes(dir / "empty", "");
  write_bytes(dir / "text", "these are no tensors, whatever the file's name says; there is more than one line of it\n");
  fs::create_directory(dir / "folder");
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  refused("missing", ErrorCode::kMissing);
  refused("empty", ErrorCode::kFormat);
  refused("text", ErrorCode::kFormat);
  refused("folder", ErrorCode::kFormat);
  refused("fifo", ErrorCode::kFormat);
  CHECK(!format.recognises(dir / "empty"));
  CHECK(!format.recognises(dir / "text"));
}

}  // namespace reshard::format::suite
