#include <doctest/doctest.h>

#include "unit/format/hdf5_fixtures.hpp"

using namespace reshard;
using namespace reshard::format;
using Names = std::vector<std::string>;

namespace {

FileCatalog catalog_of(std::string_view name, bool allow_external = false) {
  const ReadOptions options{allow_external, h5_case(name)};
  return hdf5_child().read_catalog(h5_case(name) / "model.h5", options);
}

Bytes read(std::string_view name, const StoredTensor& tensor, const FileFormat& format = hdf5_child()) {
  return read_tensor(*format.open(h5_case(name) / "model.h5", {true, h5_case(name)}), tensor);
}

void check_says(const FileCatalog& catalog, std::string_view name, std::string_view text) {
  const Issue& issue = find_refusal(catalog, name).issue;
  CHECK(issue.tensor.value_or("") == name);
  CHECK(issue.where.find("model.h5") != std::string::npos);
  CHECK_MESSAGE(issue.message.find(text) != std::string::npos, issue.message);
}

}  // namespace

TEST_CASE("hdf5: element types that are no numbers are refused one by one, the others read") {
  const FileCatalog catalog = catalog_of("types");
  CHECK(refused(catalog) == Names{"array_type: E_DTYPE", "colours: E_DTYPE", "float_unknown: E_DTYPE", "fp4: E_DTYPE",
                                  "long_text: E_DTYPE", "null: E_DTYPE", "opaque_plain: E_DTYPE", "ragged: E_DTYPE",
                                  "reference: E_DTYPE", "text: E_DTYPE"});
  check_says(catalog, "opaque_plain", "its dtype must be told by an attribute dtype");
  check_says(catalog, "fp4", "has dtype float4_e2m1fn: elements smaller than a byte");
  check_says(catalog, "text", "holds text");
  const Bytes bf16 = to_bytes(std::string_view("\x80\x3f\x20\xc0\x00\x00\x40\x40", 8));
  for (const char* const name : {"u16_named", "opaque_named", "float_bf16", "float_bf16_be", "u16_be"}) {
    CAPTURE(name);
    CHECK(find_tensor(catalog, name).dtype == Dtype::kBf16);
    CHECK(read("types", find_tensor(catalog, name)) == bf16);
  }
  for (const char* const name : {"u16_plain", "u16_other_width"}) {
    CHECK(find_tensor(catalog, name).dtype == Dtype::kU16);
    CHECK(read("types", find_tensor(catalog, name)) == bf16);
  }
  CHECK(find_tensor(catalog, "fp8").dtype == Dtype::kF8E4M3);
  CHECK(find_tensor(catalog, "c64").dtype == Dtype::kC64);
  const StoredTensor& complex = find_tensor(catalog, "c128_be");
  CHECK(complex.dtype == Dtype::kC128);
  CHECK(complex.big_endian);
  CHECK(read("types", complex) == to_bytes(std::string_view("\0\0\0\0\0\0\xf0\x3f"
                                                            "\0\0\0\0\0\0\0\x40"
                                                            "\0\0\0\0\0\0\x08\x40"
                                                            "\0\0\0\0\0\0\x10\xc0",
                                                            32)));
}

TEST_CASE("hdf5: compounds other than complex numbers are refused") {
  const FileCatalog catalog = catalog_of("compound");
  CHECK(refused(catalog) == Names{"t: E_DTYPE"});
  CHECK(names(catalog) == Names{"w"});
}

TEST_CASE("hdf5: data that were never written are refused") {
  CHECK(refused(catalog_of("never_written")) == Names{"w: E_FORMAT"});
  const FileCatalog catalog = catalog_of("unwritten");
  CHECK(refused(catalog) == Names{"bomb: E_FORMAT", "contiguous: E_FORMAT", "some_chunks: E_FORMAT"});
  check_says(catalog, "bomb", "has 0 of 1000000000000 chunks");
  check_says(catalog, "some_chunks", "has 2 of 4 chunks");
  check_says(catalog, "contiguous", "no address for its 40 bytes");
}

TEST_CASE("hdf5: a chunk that the index has at other coordinates is a missing one, never fill values") {
  // The 24 chunks of enc/w: entries of 40 bytes from 2456 on, with two coordinates at 8 and 16 (HDF5 file format 3.0,
  // III.A.1, version 1 B-trees).
  const TemporaryDirectory dir;
  const Bytes whole = file_bytes(h5_case("chunked_gzip_shuffle") / "model.h5");
  const FileCatalog intact = catalog_of("chunked_gzip_shuffle");
  const Bytes expected = read("chunked_gzip_shuffle", find_tensor(intact, "enc/w"));
  int refusals = 0;
  for (std::size_t chunk = 0; chunk < 24; ++chunk)
    for (const std::size_t coordinate : {std::size_t{8}, std::size_t{16}})
      for (const int bit : {0, 1, 3}) {
        Bytes damaged = whole;
        damaged[2456 + 40 * chunk + coordinate] ^= std::byte{1} << bit;
        File::create(dir / "model.h5").write(0, damaged);
        const FileCatalog catalog = hdf5_child().read_catalog(dir / "model.h5", {});
        if (names(catalog) == names(intact)) {
          CHECK(read_tensor(*hdf5_child().open(dir / "model.h5", {}), find_tensor(catalog, "enc/w")) == expected);
        } else {
          CHECK(refused(catalog) == Names{"enc/w: E_FORMAT"});
          check_says(catalog, "enc/w", "its chunk at [");
          ++refusals;
        }
      }
  CHECK(refusals >= 24);
}

TEST_CASE("hdf5: deflate, shuffle and fletcher32 are read, other filters refused by name") {
  const FileCatalog catalog = catalog_of("filters");
  CHECK(refused(catalog) == Names{"lzf: E_UNSUPPORTED", "scaleoffset: E_UNSUPPORTED"});
  check_says(catalog, "lzf", "filter 32000 (lzf)");
  Bytes expected;
  for (int i = 0; i < 20; ++i)
    for (int k = 0; k < 9; ++k) {
      const Bytes one = iota_f32(i, 1);
      expected.insert(expected.end(), one.begin(), one.end());
    }
  CHECK(read("filters", find_tensor(catalog, "checked")) == expected);
  CHECK(read("filters", find_tensor(catalog, "zeros")) == Bytes(4'000'000));
}

TEST_CASE("hdf5: compact, chunked and growing datasets are read through the library") {
  const FileCatalog catalog = catalog_of("layouts");
  CHECK(catalog.refusals.empty());
  for (const FileFormat* const format : {&hdf5_here(), &hdf5_child()}) {
    CHECK(read("layouts", find_tensor(catalog, "compact"), *format) == iota_f32(0, 15));
    CHECK(read("layouts", find_tensor(catalog, "chunks3"), *format) == iota_f32(0, 210));
    CHECK(read("layouts", find_tensor(catalog, "growing"), *format) == iota_f32(0, 15));
    CHECK(read("layouts", find_tensor(catalog, "empty_chunks"), *format).empty());
  }
  const std::unique_ptr<TensorReader> reader = hdf5_child().open(h5_case("layouts") / "model.h5", {});
  const Bytes whole = iota_f32(0, 210);
  for (std::int64_t first = 0; first < 840; first += 37)
    for (std::int64_t last = first; last <= 840; last += 53) {
      Bytes part(static_cast<std::size_t>(last - first));
      reader->read(find_tensor(catalog, "chunks3"), first, part);
      REQUIRE(part == Bytes(whole.begin() + first, whole.begin() + last));
    }
}

TEST_CASE("hdf5: links within the file are names, links that lead nowhere or round are refused") {
  const FileCatalog catalog = catalog_of("links");
  CHECK(names(catalog) == Names{"a/w", "soft", "soft_group/w", "tied"});
  CHECK(refused(catalog) == Names{"a/self: E_FORMAT", "a/up: E_FORMAT", "dangling: E_LINK", "ring: E_LINK",
                                  "soft_group/self: E_FORMAT", "soft_group/up: E_FORMAT"});
  check_says(catalog, "dangling", "soft link to '/a/nothing'");
  for (const StoredTensor& tensor : catalog.tensors) CHECK(read("links", tensor) == iota_f32(0, 3));
}

TEST_CASE("hdf5: groups that double at every level are refused") {
  const Issue issue = issue_of([] { catalog_of("doubling"); });
  CHECK(issue.code == ErrorCode::kFormat);
  CHECK(issue.message.find("its groups contain one another") != std::string::npos);
}

TEST_CASE("hdf5: external links are refused, or followed within the checkpoint") {
  CHECK(refused(catalog_of("external_link")) == Names{"w: E_LINK"});
  const Names all{"absent: E_LINK", "absolute: E_LINK", "dataset: E_LINK", "gone: E_LINK",
                  "group: E_LINK",  "outside: E_LINK",  "soft: E_LINK"};
  const FileCatalog closed = catalog_of("external_links");
  CHECK(names(closed) == Names{"own"});
  CHECK(refused(closed) == all);
  check_says(closed, "dataset", "external link to /group/w: it names the file 'other.h5'");

  const FileCatalog open = catalog_of("external_links", true);
  CHECK(names(open) == Names{"dataset", "group/w", "group/z", "own", "soft"});
  CHECK(refused(open) == Names{"absent: E_FORMAT", "absolute: E_LINK", "gone: E_MISSING", "outside: E_LINK"});
  check_says(open, "outside", "outside the checkpoint directory");
  for (const FileFormat* const format : {&hdf5_here(), &hdf5_child()}) {
    CHECK(read("external_links", find_tensor(open, "dataset"), *format) == iota_f32(0, 4));
    CHECK(read("external_links", find_tensor(open, "soft"), *format) == iota_f32(0, 4));
    CHECK(read("external_links", find_tensor(open, "group/z"), *format) == iota_f32(0, 16));
  }
}

TEST_CASE("hdf5: external storage is refused, or read where it lies in the checkpoint and is whole") {
  CHECK(refused(catalog_of("external_storage")) ==
        Names{"gone: E_LINK", "outside: E_LINK", "short: E_LINK", "w: E_LINK"});
  const FileCatalog open = catalog_of("external_storage", true);
  CHECK(refused(open) == Names{"gone: E_MISSING", "outside: E_LINK", "short: E_FORMAT"});
  check_says(open, "short", "needs 24 bytes at 0 of the file 'short.bin', which has 23");
  CHECK(read("external_storage", find_tensor(open, "w")) == iota_f32(0, 6));
}

TEST_CASE("hdf5: virtual datasets are refused, or read where every member is there and whole") {
  CHECK(refused(catalog_of("virtual")) == Names{"w: E_LINK"});
  check_says(catalog_of("virtual_missing"), "w", "'p1.h5' (which is not there)");

  const FileCatalog open = catalog_of("virtual", true);
  CHECK(refused(open).empty());
  CHECK(read("virtual", find_tensor(open, "w")) == iota_f32(0, 8));
  CHECK(refused(catalog_of("virtual_missing", true)) == Names{"w: E_MISSING"});
  check_says(catalog_of("virtual_missing", true), "w", "p1.h5");
  CHECK(refused(catalog_of("virtual_hole", true)) == Names{"w: E_FORMAT"});
  check_says(catalog_of("virtual_hole", true), "w", "members fill 4 of 8 elements");
  CHECK(refused(catalog_of("virtual_short", true)) == Names{"w: E_FORMAT"});
  check_says(catalog_of("virtual_short", true), "w", "member w of p1.h5 has 2 elements, the mapping takes 4");
  CHECK(refused(catalog_of("virtual_outside", true)) == Names{"w: E_LINK"});
}

TEST_CASE("hdf5: a file whose writer was killed is refused") {
  const Issue issue = issue_of([] { catalog_of("killed_writer"); });
  CHECK(issue.code == ErrorCode::kFormat);
  CHECK_MESSAGE(issue.message.find("already open for write") != std::string::npos, issue.message);
}
