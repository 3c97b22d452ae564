#include "reshard/format/safetensors/safetensors.hpp"

#include <doctest/doctest.h>

#include <chrono>

#include "unit/format/fixtures.hpp"
#include "unit/format/suite.hpp"

using namespace reshard;
using namespace reshard::format;

namespace {

const std::unique_ptr<FileFormat> kFormat = make_safetensors();

/// Length, header and data of a file.
std::string file_text(const std::string& header, const std::string& data = "") {
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> 8 * i);
  return out + header + data;
}

std::string length_prefix(std::uint64_t length) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(length >> 8 * i & 0xff);
  return out;
}

struct Bad {
  std::string what;
  std::string bytes;
  std::string tensor;
  std::string says;  ///< part of the message
  ErrorCode code = ErrorCode::kFormat;
};

}  // namespace

TEST_CASE("safetensors: every dtype it has comes back, c128 is refused") {
  suite::round_trips_every_dtype(*kFormat, {Dtype::kC128});
}
TEST_CASE("safetensors: scalars and zero-size tensors come back") {
  suite::round_trips_scalars_and_zero_sizes(*kFormat);
}
TEST_CASE("safetensors: odd names come back exactly") {
  suite::round_trips_odd_names(*kFormat);
}
TEST_CASE("safetensors: any byte range of a tensor can be read") {
  suite::reads_every_part_of_a_tensor(*kFormat);
}
TEST_CASE("safetensors: one reader serves several threads") {
  suite::reads_from_several_threads(*kFormat);
}
TEST_CASE("safetensors: the same input gives the same bytes") {
  suite::creates_the_same_bytes_again(*kFormat);
}
TEST_CASE("safetensors: a layout of terabytes costs no memory") {
  suite::lays_out_more_than_memory_holds(*kFormat);
}
TEST_CASE("safetensors: what is no safetensors file is refused") {
  suite::refuses_what_is_no_file_of_the_format(*kFormat);
}

TEST_CASE("safetensors: a written file has exactly these bytes") {
  const TemporaryDirectory dir;
  const NewFile file{{{"b", Dtype::kU8, {3}, {3}},
                      {"z", Dtype::kF32, {2}, {4}},
                      {"a", Dtype::kBf16, {1, 2}, {1, 2}},
                      {"e", Dtype::kI64, {0}, {0}}},
                     {{"note", "x\"y"}, {"DCP_VERSION", "1.0"}, {"format", "np"}},
                     {"tp=2"}};
  const FileLayout layout = kFormat->create(dir / "f", file, 0);
  const std::string header = R"({"__metadata__":{"format":"pt","note":"x\"y"},)"
                             R"("e":{"dtype":"I64","shape":[0],"data_offsets":[0,0]},)"
                             R"("z":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]},)"
                             R"("b":{"dtype":"U8","shape":[3],"data_offsets":[12,15]}})";
  REQUIRE(header.size() == 263);
  CHECK(file_bytes(dir / "f") == to_bytes(file_text(header + " ", std::string(15, '\0'))));
  CHECK(layout.bytes == 8 + 264 + 15);
  CHECK(layout.offsets == std::vector<std::int64_t>{8 + 264 + 12, 8 + 264, 8 + 264 + 8, 0});
}

TEST_CASE("safetensors: a file written by hand is read, in any order of its entries") {
  const TemporaryDirectory dir;
  write_bytes(dir / "f", file_text(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
                                   R"( "__metadata__":{"format":"pt","k":"v"},)"
                                   R"( "a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}}   )",
                                   "\x01\x02\x03\x04\x05\x06"));
  const FileCatalog catalog = kFormat->read_catalog(dir / "f", {});
  CHECK(catalog.metadata == std::map<std::string, std::string>{{"format", "pt"}, {"k", "v"}});
  REQUIRE(catalog.tensors.size() == 2);
  CHECK(catalog.tensors[0].name == "a");
  CHECK(catalog.tensors[0].shape == Shape{});
  const std::unique_ptr<TensorReader> reader = kFormat->open(dir / "f", {});
  CHECK(read_tensor(*reader, catalog.tensors[0]) == to_bytes("\x01\x02\x03\x04"));
  CHECK(read_tensor(*reader, catalog.tensors[1]) == to_bytes("\x05\x06"));
}

TEST_CASE("safetensors: a header that is wrong is refused with file, tensor and numbers") {
  const std::string good = R"("w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const auto entry = [](const std::string& name, const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + '}';
  };
  // Texts in a text of JSON: quotes are escaped.
  const auto dcp = [&](const std::string& info) {
    return file_text(R"({"__metadata__":{"DCP_SHARDING_INFO":")" + info + "\"}," + good + "}", "abcd");
  };
  const std::vector<Bad> cases = {
      {"7 bytes", std::string(7, '\0'), "", "has 7 bytes, expected at least 8"},
      {"8 bytes", length_prefix(10), "", "its header has 10 bytes, 0 follow"},
      {"length 0", length_prefix(0) + "{}", "", "its header has 0 bytes"},
      {"length 2^63", length_prefix(std::uint64_t{1} << 63) + "{}", "",
       "9223372036854775808 bytes, expected at most 100000000"},
      {"length 2^64-1", length_prefix(~std::uint64_t{0}) + "{}", "", "18446744073709551615 bytes"},
      {"length 2^40", length_prefix(std::uint64_t{1} << 40) + "{}", "", "1099511627776 bytes"},
      {"length above the cap", length_prefix(100'000'001) + "{}", "", "100000001 bytes, expected at most 100000000"},
      {"length one too large", length_prefix(3) + "{}", "", "its header has 3 bytes, 2 follow"},
      {"blank first", file_text(" {}"), "", "byte 8 is 0x20"},
      {"list first", file_text("[] "), "", "byte 8 is 0x5b"},
      {"byte order mark", file_text("\xef\xbb\xbf{}"), "", "byte 8 is 0xef"},
      {"cut inside the JSON", file_text("{" + good), "", "not JSON"},
      {"trailing NUL", file_text("{" + good + "}" + std::string(3, '\0'), "abcd"), "", "NUL"},
      {"text behind the object", file_text("{" + good + "} x", "abcd"), "", "not JSON"},
      {"a name twice", file_text("{" + good + "," + good + "}", "abcd"), "", R"(the key "w" is given twice)"},
      {"metadata twice", file_text(R"({"__metadata__":{},"__metadata__":{}})"), "", R"("__metadata__" is given twice)"},
      {"dtype twice", file_text(R"({"w":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}})"), "",
       R"("dtype" is given twice)"},
      {"ranges that are one",
       file_text("{" + entry("k", "F32", "[4]", "[0,16]") + "," + entry("v", "F32", "[4]", "[0,16]") + "}",
                 std::string(16, 'x')),
       "v", "begins at byte 0 of the data inside tensor 'k', which ends at 16"},
      {"ranges that overlap",
       file_text("{" + entry("k", "F32", "[4]", "[0,16]") + "," + entry("v", "F32", "[4]", "[12,28]") + "}",
                 std::string(28, 'x')),
       "v", "begins at byte 12 of the data inside tensor 'k', which ends at 16"},
      {"a hole",
       file_text("{" + entry("k", "U8", "[4]", "[0,4]") + "," + entry("v", "U8", "[4]", "[8,12]") + "}",
                 std::string(12, 'x')),
       "v", "begins at byte 8 of the data, expected 4"},
      {"first offset not 0", file_text("{" + entry("w", "U8", "[4]", "[1,5]") + "}", "abcde"), "w",
       "begins at byte 1 of the data, expected 0"},
      {"bytes behind the last", file_text("{" + good + "}", std::string(20, 'x')), "",
       "ends at byte 4 of the data, of which the file has 20: 16 bytes too many"},
      {"one byte short", file_text("{" + good + "}", "abc"), "w", "ends at byte 4 of the data, which begins at "},
      {"no tensor but data", file_text("{}", "abc"), "", "3 bytes too many"},
      {"dtype F9", file_text("{" + entry("w", "F9", "[4]", "[0,4]") + "}", "abcd"), "w", R"(unknown dtype "F9")"},
      {"dtype in lower case", file_text("{" + entry("w", "f32", "[1]", "[0,4]") + "}", "abcd"), "w",
       R"(unknown dtype "f32")"},
      {"dtype missing", file_text(R"({"w":{"shape":[4],"data_offsets":[0,4]}})", "abcd"), "w", "has no dtype"},
      {"shape missing", file_text(R"({"w":{"dtype":"U8","data_offsets":[0,4]}})", "abcd"), "w", "has no shape"},
      {"offsets missing", file_text(R"({"w":{"dtype":"U8","shape":[4]}})", "abcd"), "w", "has no data_offsets"},
      {"unknown key", file_text(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"strides":[1]}})", "abcd"), "w",
       R"(unknown key "strides")"},
      {"elements of half a byte", file_text("{" + entry("w", "F4", "[8]", "[0,4]") + "}", "abcd"), "w", "has dtype F4",
       ErrorCode::kDtype},
      {"elements of 6 bits", file_text("{" + entry("w", "F6_E2M3", "[4]", "[0,3]") + "}", "abc"), "w",
       "has dtype F6_E2M3", ErrorCode::kDtype},
      {"metadata holds a number", file_text(R"({"__metadata__":{"k":1}})"), "",
       R"(key "k" holds the number 1, expected a text)"},
      {"metadata holds an object", file_text(R"({"__metadata__":{"k":{}}})"), "", R"(key "k" holds an object)"},
      {"metadata holds null", file_text(R"({"__metadata__":{"k":null}})"), "", R"(key "k" holds null)"},
      {"metadata is a list", file_text(R"({"__metadata__":[]})"), "", "__metadata__ is a list"},
      {"an entry is a number", file_text(R"({"w":3})"), "w", "its entry is the number 3, expected an object"},
      {"too few bytes for the shape", file_text("{" + entry("t", "F32", "[1000,1000]", "[0,4]") + "}", "abcd"), "t",
       "data_offsets [0, 4] hold 4 bytes, shape [1000, 1000] of f32 needs 4000000"},
      {"a range backwards", file_text("{" + entry("u", "F32", "[2]", "[8,0]") + "}", "abcdefgh"), "u",
       "data_offsets [8, 0] end before they begin"},
      {"a shape beyond 63 bits", file_text("{" + entry("n", "U8", "[4294967296,4294967296]", "[0,4]") + "}", "abcd"),
       "n", "2^63 bytes or more"},
      {"a shape beyond 63 bits with a zero",
       file_text("{" + entry("n", "U8", "[0,4294967296,4294967296]", "[0,0]") + "}"), "n", "2^63 bytes or more"},
      {"bytes beyond 63 bits", file_text("{" + entry("n", "F32", "[4611686018427387904]", "[0,4]") + "}", "abcd"), "n",
       "2^63 bytes or more"},
      {"a negative extent", file_text("{" + entry("n", "U8", "[-4]", "[0,4]") + "}", "abcd"), "n",
       "negative extent -4"},
      {"an extent that is no integer", file_text("{" + entry("n", "U8", "[4.0]", "[0,4]") + "}", "abcd"), "n",
       "its shape holds the number 4.0"},
      {"an extent beyond 64 bits", file_text("{" + entry("n", "U8", "[18446744073709551616]", "[0,4]") + "}", "abcd"),
       "n", "18446744073709551616, which is no integer"},
      {"a truth value as extent", file_text("{" + entry("n", "U8", "[true]", "[0,4]") + "}", "abcd"), "n",
       "its shape holds a boolean"},
      {"a negative offset", file_text("{" + entry("n", "U8", "[4]", "[-1,3]") + "}", "abcd"), "n",
       "negative number -1"},
      {"one offset", file_text("{" + entry("n", "U8", "[4]", "[4]") + "}", "abcd"), "n",
       "data_offsets has 1 numbers, expected 2"},
      {"three offsets", file_text("{" + entry("n", "U8", "[4]", "[0,4,8]") + "}", "abcd"), "n",
       "data_offsets has 3 numbers, expected 2"},
      {"65 dims",
       file_text("{" +
                     entry(
                         "n", "U8",
                         "[" +
                             [] {
                               std::string s;
                               for (int i = 0; i < 64; ++i) s += "1,";
                               return s;
                             }() +
                             "4]",
                         "[0,4]") +
                     "}",
                 "abcd"),
       "n", "more than 64 dims", ErrorCode::kUnsupported},
      {"a million levels", file_text("{\"w\":" + std::string(1'000'000, '[')), "w", "its entry is a list"},
      {"a million levels of objects", file_text([] {
         std::string s;
         for (int i = 0; i < 1'000'000; ++i) s += "{\"w\":";
         return s;
       }()),
       "w", "unknown key"},
      {"a name that is not UTF-8", file_text("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"), "",
       "not JSON"},
      {"a shard of a DCP set",
       file_text(R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"w\":{\"saved_offsets\":[0,4]}}"},)" + good + "}", "abcd"),
       "w", "saved offset 4", ErrorCode::kUnsupported},
      {"DCP text that is none", file_text(R"({"__metadata__":{"DCP_SHARDING_INFO":"{"},)" + good + "}", "abcd"), "",
       "DCP_SHARDING_INFO"},
      {"DCP text that is a list", dcp("[]"), "", "DCP_SHARDING_INFO is a list, expected a map of tensors"},
      {"DCP text without offsets", dcp(R"({\"w\":{\"offsets\":[0]}})"), "w", "has no saved_offsets for it"},
      {"DCP offsets that are no list", dcp(R"({\"w\":{\"saved_offsets\":0}})"), "w", "has no saved_offsets for it"},
      {"a DCP offset that is no integer", dcp(R"({\"w\":{\"saved_offsets\":[0.5]}})"), "w", "expected an integer"},
      {"a DCP shard at 1", dcp(R"({\"w\":{\"saved_offsets\":[0,1]}})"), "w", "saved offset 1", ErrorCode::kUnsupported},
      {"a DCP shard before 0", dcp(R"({\"w\":{\"saved_offsets\":[-1]}})"), "w", "saved offset -1",
       ErrorCode::kUnsupported},
      {"length 1", length_prefix(1) + "{", "", "its header has 1 bytes, expected at least 2"},
      {"length at the cap", length_prefix(100'000'000) + "{}", "", "is truncated: its header has 100000000 bytes"},
      {"a short text", "hello, world", "", "begins with the text 'hello, world', expected 8 bytes"},
      {"a page behind blanks", "\t \r\n<html>~\r\n<body>", "", "begins with the text '<html>~', expected 8 bytes"},
      {"a text of tildes", "~~~~~~~~~", "", "begins with the text '~~~~~~~~~'"},
      {"a pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "", "a Git LFS pointer"},
      {"a text as shape", file_text(R"({"w":{"dtype":"U8","shape":"U8","data_offsets":[0,0]}})"), "w",
       R"(shape is the text "U8", expected a list of integers)"},
      {"an entry is a text", file_text(R"({"v":{"shape":[0],"data_offsets":[0,0],"dtype":"U8"},"w":"U8"})"), "w",
       R"(its entry is the text "U8", expected an object)"},
      {"the second without a dtype",
       file_text("{" + entry("v", "U8", "[0]", "[0,0]") + R"(,"w":{"shape":[0],"data_offsets":[0,0]}})"), "w",
       "has no dtype"},
      {"too many bytes for the shape", file_text("{" + entry("t", "U8", "[2]", "[0,4]") + "}", "abcd"), "t",
       "data_offsets [0, 4] hold 4 bytes, shape [2] of u8 needs 2"},
      {"ranges that are one, the other way round",
       file_text("{" + entry("v", "F32", "[4]", "[0,16]") + "," + entry("k", "F32", "[4]", "[0,16]") + "}",
                 std::string(16, 'x')),
       "v", "begins at byte 0 of the data inside tensor 'k', which ends at 16"},
      {"elements of 6 bits of the other kind", file_text("{" + entry("w", "F6_E3M2", "[4]", "[0,3]") + "}", "abc"), "w",
       "has dtype F6_E3M2", ErrorCode::kDtype},
  };
  const TemporaryDirectory dir;
  for (const Bad& bad : cases) {
    CAPTURE(bad.what);
    write_bytes(dir / "bad.safetensors", bad.bytes);
    const auto read = [&] { kFormat->read_catalog(dir / "bad.safetensors", {}); };
    const Issue issue = issue_of(read);
    CHECK(issue.code == bad.code);
    CHECK(issue.where.find((dir / "bad.safetensors").string()) == 0);
    CHECK(issue.tensor.value_or("") == bad.tensor);
    CHECK_MESSAGE(issue.message.find(bad.says) != std::string::npos, issue.message);
    CHECK(issue == issue_of(read));
  }
}

TEST_CASE("safetensors: 64 dims are read, and what is empty may lie where another tensor begins") {
  std::string ones = "[4";
  for (int i = 0; i < 63; ++i) ones += ",1";
  const TemporaryDirectory dir;
  write_bytes(dir / "f", file_text(R"({"a":{"dtype":"U8","shape":)" + ones +
                                       R"(],"data_offsets":[0,4]},)"
                                       R"("b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                       R"("c":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
                                   "abcdef"));
  const FileCatalog catalog = kFormat->read_catalog(dir / "f", {});
  REQUIRE(catalog.tensors.size() == 3);
  CHECK(catalog.tensors[0].shape.size() == 64);
  CHECK_FALSE(catalog.tensors[1].offset);
  const std::unique_ptr<TensorReader> reader = kFormat->open(dir / "f", {});
  CHECK(read_tensor(*reader, catalog.tensors[0]) == to_bytes("abcd"));
  CHECK(read_tensor(*reader, catalog.tensors[2]) == to_bytes("ef"));
}

TEST_CASE("safetensors: the header ends at the next multiple of 8") {
  const TemporaryDirectory dir;
  std::size_t most = 0;
  for (std::size_t n = 1; n <= 8; ++n) {
    CAPTURE(n);
    NewFile file;
    file.tensors = {{std::string(n, 'x'), Dtype::kU8, {1}, {1}}};
    const FileLayout layout = kFormat->create(dir / "f", file, 0);
    std::string text(static_cast<std::size_t>(layout.bytes - 1), '\0');
    File::open_to_read(dir / "f").read(0, std::as_writable_bytes(std::span(text)));
    CHECK(text.size() % 8 == 0);
    CHECK(layout.offsets[0] == std::ssize(text));
    const std::size_t blanks = text.size() - 1 - text.rfind('}');
    CHECK(blanks < 8);
    most = std::max(most, blanks);
  }
  CHECK(most == 7);
}

TEST_CASE("safetensors: a file is recognised by a length that a header may have, and a brace") {
  const TemporaryDirectory dir;
  const auto is_recognised = [&](std::uint64_t length, const std::string& rest) {
    write_bytes(dir / "f", length_prefix(length) + rest);
    return kFormat->recognises(dir / "f");
  };
  CHECK(is_recognised(2, "{"));
  CHECK_FALSE(is_recognised(2, ""));
  CHECK_FALSE(is_recognised(2, "["));
  CHECK(is_recognised(100'000'000, "{"));
  CHECK_FALSE(is_recognised(100'000'001, "{"));
}

TEST_CASE("safetensors: a header that its readers would refuse is not written") {
  const std::size_t others = std::string_view(R"({"__metadata__":{"format":"pt"},"":{"dtype":"U8","shape":[1],)"
                                              R"("data_offsets":[0,1]}})")
                                 .size();
  NewFile file;
  file.tensors = {{std::string(100'000'000 - others, 'x'), Dtype::kU8, {1}, {1}}};
  CHECK(kFormat->lay_out(file).bytes == 100'000'009);
  file.tensors[0].name += 'x';
  const Issue issue = issue_of([&] { kFormat->lay_out(file); });
  CHECK(issue.code == ErrorCode::kUnsupported);
  CHECK(issue.message ==
        "its header would have 100000008 bytes (1 tensors); safetensors allows 100000000: write more files");
}

TEST_CASE("safetensors: a DCP shard whose offsets are all 0 is read") {
  const TemporaryDirectory dir;
  write_bytes(dir / "f", file_text(R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"w\":{\"saved_offsets\":[0]}}"},)"
                                   R"("w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                                   "abcd"));
  CHECK(kFormat->read_catalog(dir / "f", {}).tensors.size() == 1);
}

TEST_CASE("safetensors: names it cannot hold are refused before anything is written") {
  const auto check = [](const char* name) {
    const NewTensor tensor{name, Dtype::kF32, {1}, {1}};
    return issue_of([&] { kFormat->check(tensor); });
  };
  CHECK(check("__metadata__").code == ErrorCode::kUnsupported);
  CHECK(check("bad\xc3").code == ErrorCode::kUnsupported);
  CHECK(check("overlong\xc0\xaf").tensor == "overlong\xc0\xaf");
  CHECK(check("surrogate\xed\xa0\x80").code == ErrorCode::kUnsupported);
}

TEST_CASE("safetensors: a file that shrinks while it is read is an input error") {
  const TemporaryDirectory dir;
  write_file(*kFormat, dir / "f", {{{"w", Dtype::kF32, {100}, {100}}}, {}, {}});
  const FileCatalog catalog = kFormat->read_catalog(dir / "f", {});
  const std::unique_ptr<TensorReader> reader = kFormat->open(dir / "f", {});
  fs::resize_file(dir / "f", static_cast<std::uintmax_t>(catalog.bytes - 1));
  const Issue issue = issue_of([&] { read_tensor(*reader, catalog.tensors[0]); });
  CHECK(issue.code == ErrorCode::kIo);
  CHECK(issue.where == (dir / "f").string());
}

TEST_CASE("safetensors: a million tensors in one file are read") {
  constexpr std::size_t kCount = 1'000'000;
  NewFile file;
  for (std::size_t i = 0; i < kCount; ++i)
    file.tensors.push_back({"w" + std::to_string(i), Dtype::kBf16, {2, 4}, {2, 4}});
  const TemporaryDirectory dir;
  kFormat->create(dir / "f", file, 0);
  const auto begin = std::chrono::steady_clock::now();
  const FileCatalog catalog = kFormat->read_catalog(dir / "f", {});
  MESSAGE("read in ", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), " s");
  CHECK(catalog.tensors.size() == kCount);
}
