#include "reshard/format/hdf5/hdf5.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "reshard/format/hdf5/names.hpp"
#include "reshard/format/hdf5/slabs.hpp"
#include "reshard/format/safetensors/safetensors.hpp"
#include "unit/format/hdf5_fixtures.hpp"
#include "unit/format/suite.hpp"

using namespace reshard;
using namespace reshard::format;
using Names = std::vector<std::string>;

TEST_CASE("hdf5: every dtype comes back") {
  suite::round_trips_every_dtype(hdf5_here(), {});
  suite::round_trips_every_dtype(hdf5_child(), {});
}
TEST_CASE("hdf5: scalars and zero-size tensors come back") {
  suite::round_trips_scalars_and_zero_sizes(hdf5_here());
  suite::round_trips_scalars_and_zero_sizes(hdf5_child());
}
TEST_CASE("hdf5: odd names come back exactly") {
  suite::round_trips_odd_names(hdf5_here());
  suite::round_trips_odd_names(hdf5_child());
}
TEST_CASE("hdf5: any byte range of a tensor can be read") {
  suite::reads_every_part_of_a_tensor(hdf5_child());
}
TEST_CASE("hdf5: one reader serves several threads") {
  suite::reads_from_several_threads(hdf5_child());
}
TEST_CASE("hdf5: the same input gives the same bytes") {
  suite::creates_the_same_bytes_again(hdf5_here());
}
TEST_CASE("hdf5: a layout of terabytes costs no memory") {
  suite::lays_out_more_than_memory_holds(hdf5_here());
}
TEST_CASE("hdf5: what is no HDF5 file is refused") {
  suite::refuses_what_is_no_file_of_the_format(hdf5_here());
  suite::refuses_what_is_no_file_of_the_format(hdf5_child());
}

TEST_CASE("hdf5: a file made seconds later has the same bytes") {
  const TemporaryDirectory dir;
  const NewFile file{{{"group/w", Dtype::kBf16, {300, 200}, {600, 200}}, {"b", Dtype::kF32, {7}, {7}}}, {}, {"tp=2"}};
  write_file(hdf5_here(), dir / "one", file);
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  write_file(hdf5_here(), dir / "two", file);
  CHECK(file_bytes(dir / "one") == file_bytes(dir / "two"));
}

TEST_CASE("hdf5: axes, rank and global shapes are recorded and read back") {
  const TemporaryDirectory dir;
  hdf5_here().create(dir / "f",
                     {{{"w", Dtype::kF32, {2, 3}, {4, 3}}, {"s", Dtype::kF32, {}, {}}}, {}, {"dp=1", "tp=2"}}, 1);
  const FileCatalog catalog = hdf5_child().read_catalog(dir / "f", {});
  CHECK(catalog.axes == Names{"dp=1", "tp=2"});
  CHECK(catalog.rank == 1);
  CHECK(find_tensor(catalog, "w").global_shape == Shape{4, 3});
  CHECK(find_tensor(catalog, "s").global_shape == Shape{});
  hdf5_here().create(dir / "none", {{}, {}, {}}, 0);
  CHECK(hdf5_here().read_catalog(dir / "none", {}).axes == Names{});
}

TEST_CASE("hdf5: tensors of 64 KiB and more begin at multiples of 4096") {
  const TemporaryDirectory dir;
  const FileLayout layout = hdf5_here().create(
      dir / "f",
      {{{"a", Dtype::kU8, {5}, {5}}, {"b", Dtype::kU8, {65536}, {65536}}, {"c", Dtype::kF32, {100000}, {100000}}},
       {},
       {}},
      0);
  CHECK(layout.offsets[1] % 4096 == 0);
  CHECK(layout.offsets[2] % 4096 == 0);
  CHECK(layout.bytes < 65536 + 400000 + 16384);
}

TEST_CASE("hdf5: five thousand long names come back") {
  const TemporaryDirectory dir;
  NewFile file;
  for (int i = 0; i < 5000; ++i)
    file.tensors.push_back(
        {"model.layers.with.a.name.of.some.sixty.characters.weight." + std::to_string(i), Dtype::kF32, {1}, {1}});
  hdf5_here().create(dir / "f", file, 0);
  CHECK(hdf5_child().read_catalog(dir / "f", {}).tensors.size() == 5000);
}

TEST_CASE("hdf5: what it cannot store is refused by name") {
  const auto refusal = [](NewTensor tensor) { return issue_of([&] { hdf5_here().check(tensor); }); };
  CHECK(refusal({std::string("a\0b", 3), Dtype::kF32, {1}, {1}}).code == ErrorCode::kUnsupported);
  CHECK(refusal({"a\xff", Dtype::kF32, {1}, {1}}).code == ErrorCode::kUnsupported);
  CHECK(refusal({std::string(20000, 'n'), Dtype::kF32, {1}, {1}}).message.find("20000 bytes") != std::string::npos);
  CHECK(refusal({"w", Dtype::kF32, Shape(33, 1), Shape(33, 1)}).message == "has 33 dims; HDF5 stores at most 32");
}

TEST_CASE("hdf5: names become paths as the convention says") {
  const std::vector<std::string_view> tensor_names = {"a.b", "g/w",   "conv1", "conv1/bn", "100%",  "",
                                                      "/",   "x/./y", "x/..",  "a//b",     "x.y/z", "..a/b"};
  CHECK(hdf5::stored_paths(tensor_names) == Names{"a.b", "g/w", "conv1", "conv1%2Fbn", "100%25", "%00", "%00%2F%00",
                                                  "x%2F%2E%2Fy", "x%2F%2E%2E", "a%2F%00%2Fb", "x.y/z", "..a/b"});
}

TEST_CASE("hdf5: a range of elements becomes at most two slabs per dim") {
  using hdf5::Slab;
  using hdf5::slabs_of;
  CHECK(slabs_of({3, 4}, 2, 8) == std::vector<Slab>{{{0, 2}, {1, 2}}, {{1, 0}, {1, 4}}, {{2, 0}, {1, 2}}});
  CHECK(slabs_of({3, 4}, 0, 12) == std::vector<Slab>{{{0, 0}, {3, 4}}});
  CHECK(slabs_of({5}, 1, 3) == std::vector<Slab>{{{1}, {3}}});
  CHECK(slabs_of({}, 0, 1) == std::vector<Slab>{{{}, {}}});
  CHECK(slabs_of({2, 2, 2}, 1, 6) ==
        std::vector<Slab>{
            {{0, 0, 1}, {1, 1, 1}}, {{0, 1, 0}, {1, 1, 2}}, {{1, 0, 0}, {1, 1, 2}}, {{1, 1, 0}, {1, 1, 1}}});
}

TEST_CASE("hdf5: files of other software give exactly their arrays") {
  const std::unique_ptr<FileFormat> safetensors = make_safetensors();
  for (const char* const name :
       {"big_endian", "bool_enum", "chunked_gzip_shuffle", "empty", "foreign_attributes", "hard_link", "keras_bf16",
        "keras_weights", "libver_latest", "number_types", "odd_names", "scalars", "user_block"}) {
    CAPTURE(name);
    const fs::path expected_path = h5_case(name) / "expected.safetensors";
    const FileCatalog expected = safetensors->read_catalog(expected_path, {});
    const std::unique_ptr<TensorReader> expected_reader = safetensors->open(expected_path, {});
    for (const FileFormat* const format : {&hdf5_here(), &hdf5_child()}) {
      const FileCatalog catalog = format->read_catalog(h5_case(name) / "model.h5", {});
      const std::unique_ptr<TensorReader> reader = format->open(h5_case(name) / "model.h5", {});
      CHECK(catalog.refusals.empty());
      CHECK(!catalog.axes);
      CHECK(!catalog.rank);
      CHECK(names(catalog) == names(expected));
      for (const StoredTensor& tensor : expected.tensors) {
        CAPTURE(tensor.name);
        const StoredTensor& found = find_tensor(catalog, tensor.name);
        CHECK(found.dtype == tensor.dtype);
        CHECK(found.shape == tensor.shape);
        CHECK(!found.global_shape);
        const Bytes whole = read_tensor(*expected_reader, tensor);
        CHECK(read_tensor(*reader, found) == whole);
        if (whole.size() < 7) continue;
        Bytes part(whole.size() - 5);
        reader->read(found, 3, part);
        CHECK(part == Bytes(whole.begin() + 3, whole.end() - 2));
      }
    }
  }
}

TEST_CASE("hdf5: contiguous data of other software are read by their address") {
  for (const char* const name : {"number_types", "user_block", "big_endian"}) {
    CAPTURE(name);
    for (const StoredTensor& tensor : hdf5_here().read_catalog(h5_case(name) / "model.h5", {}).tensors)
      CHECK(tensor.offset);
  }
  for (const StoredTensor& tensor : hdf5_here().read_catalog(h5_case("chunked_gzip_shuffle") / "model.h5", {}).tensors)
    CHECK(!tensor.offset);
}

TEST_CASE("hdf5: a file is recognised by its signature, also behind a user block") {
  CHECK(hdf5_here().recognises(h5_case("user_block") / "model.h5"));
  CHECK(!hdf5_here().recognises(h5_case("user_block") / "expected.safetensors"));
}
