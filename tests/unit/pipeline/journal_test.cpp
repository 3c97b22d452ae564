#include "reshard/pipeline/journal.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "reshard/base/crc64.hpp"
#include "unit/pipeline/checkpoint_fixtures.hpp"

using namespace reshard;
using pipeline::Extent;
using pipeline::Journal;
using pipeline::JournaledFiles;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
const JournaledFiles kFiles{"00000000000000aa", {"a b", "sub/c", "d\n"}, {300 * kMiB, 1000, 1000}};
constexpr const char* kFirst = "reshard journal 1 00000000000000aa\n";

struct Place {
  test::TemporaryDirectory root;

  std::vector<Extent> extents() const { return pipeline::read_journals(root.path(), kFiles); }
  std::vector<Extent> extents_of(const std::string& text) const {
    write_text(root.path() / "journal", text);
    return extents();
  }
  std::string text(const std::string& name = "journal") const { return read_text(root.path() / name, kMiB); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const fs::directory_entry& entry : fs::directory_iterator(root.path()))
      out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
};

}  // namespace

TEST_CASE("a journal is read back as it was written") {
  const Place place;
  const std::vector<Extent> written = {{0, 10, 20, 1}, {0, 64 * kMiB, 128 * kMiB, 2}, {1, 0, 1000, 0}, {2, 3, 4, 5}};
  pipeline::replace_journals(place.root.path(), kFiles, written);
  CHECK(place.extents() == written);
  CHECK(pipeline::journal_plan_digest(place.root.path()) == kFiles.plan_digest);
}

TEST_CASE("a line has the file's name, offset, length and the CRC-64/XZ of the bytes") {
  const Place place;
  const std::string bytes = "123456789";
  pipeline::replace_journals(place.root.path(), kFiles, {{0, 5, 14, crc64::raw(0, std::as_bytes(std::span(bytes)))}});
  CHECK(place.text() == std::string(kFirst) + "a b 5 9 995dc9bbdf1939fa\n");
}

TEST_CASE("a torn last line is no line") {
  const Place place;
  const std::string whole = std::string(kFirst) + "sub/c 0 10 0000000000000000\n";
  CHECK(place.extents_of(whole + "sub/c 20 10 0000000000000000").size() == 1);
  for (std::size_t n = 0; n < whole.size(); ++n) CHECK(place.extents_of(whole.substr(0, n)).empty());
  CHECK(place.extents_of(whole).size() == 1);
}

TEST_CASE("lines about other files or ranges are left out, the others stand") {
  const Place place;
  const std::string good = "sub/c 0 10 0000000000000000\n";
  for (const std::string line : {"other 0 10 0000000000000000",
                                 "sub/c 995 6 0000000000000000",
                                 "sub/c -1 5 0000000000000000",
                                 "sub/c 20 0 0000000000000000",
                                 "sub/c 20 -5 0000000000000000",
                                 "sub/c 1000 1 0000000000000000",
                                 "a b 67108863 2 0000000000000000",
                                 "a b 0 67108865 0000000000000000",
                                 "sub/c 20 5 000000000000000",
                                 "sub/c 20 5 000000000000000g",
                                 "sub/c 20 5 00000000000000000",
                                 "sub/c 20 0000000000000000",
                                 "sub/c 99999999999999999999 5 0000000000000000",
                                 "sub/c 9223372036854775807 9223372036854775807 0000000000000000",
                                 "sub/c 20 5",
                                 "20",
                                 "",
                                 " ",
                                 "   ",
                                 "sub/c  20 5 0000000000000000"}) {
    CAPTURE(line);
    const std::vector<Extent> found = place.extents_of(std::string(kFirst) + line + "\n" + good);
    REQUIRE(found.size() == 1);
    CHECK(found[0].file == 1);
    CHECK(found[0].end == 10);
  }
}

TEST_CASE("a journal of many lines is read to its end") {
  const Place place;
  std::string text = kFirst;
  for (int i = 0; i < 60000; ++i) text += fmt::format("a b {} 1 0000000000000000\n", 2 * i);
  CHECK(std::ssize(text) > kMiB);
  const std::vector<Extent> found = place.extents_of(text);
  REQUIRE(found.size() == 60000);
  for (std::size_t i = 0; i < found.size(); i += 997) CHECK(found[i].begin == 2 * static_cast<std::int64_t>(i));
}

TEST_CASE("a journal that is opened again goes on, and tells what it has when it goes") {
  const Place place;
  for (const std::int64_t begin : {0, 20}) {
    Journal journal(place.root.path(), kFiles, 0);
    journal.open();
    journal.add({1, begin, begin + 10, 0});
    CHECK_THROWS(journal.add({1, begin + 9, begin + 12, 0}));
  }
  const std::string digest = crc64::to_hex(crc64::finish(0, 10));
  CHECK(place.text() == fmt::format("{}sub/c 0 10 {}\nsub/c 20 10 {}\n", kFirst, digest, digest));
}

TEST_CASE("of lines that overlap the first stands") {
  const Place place;
  const std::vector<Extent> found = place.extents_of(
      std::string(kFirst) + "sub/c 0 10 0000000000000001\nsub/c 5 10 0000000000000002\nsub/c 0 10 0000000000000003\n");
  CHECK(found == std::vector<Extent>{{1, 0, 10, crc64::unfinish(1, 10)}});
}

TEST_CASE("a journal of another plan, or without a first line, tells nothing") {
  const Place place;
  const std::string line = "sub/c 0 10 0000000000000000\n";
  CHECK(place.extents_of("reshard journal 1 00000000000000bb\n" + line).empty());
  CHECK(pipeline::journal_plan_digest(place.root.path()) == "00000000000000bb");
  for (const std::string& text : {line, std::string(), std::string("reshard journal 1 00000000000000aa"),
                                  std::string("reshard journal 2 00000000000000aa\n")}) {
    CHECK(place.extents_of(text + line).empty());
    CHECK(place.extents_of(text).empty());
    CHECK_FALSE(pipeline::journal_plan_digest(place.root.path()));
  }
  fs::remove(place.root.path() / "journal");
  fs::create_directory(place.root.path() / "journal");
  CHECK(place.extents().empty());
  CHECK_FALSE(pipeline::journal_plan_digest(place.root.path()));
}

TEST_CASE("every process has a journal of its own, and one takes the place of all") {
  const Place place;
  pipeline::replace_journals(place.root.path(), kFiles, {});
  for (const ProcessRank process : {0, 1, 11}) {
    Journal journal(place.root.path(), kFiles, process);
    journal.open();
    journal.add({1, process * 10, process * 10 + 10, 7});
    journal.close();
  }
  CHECK(place.names() == std::vector<std::string>{"journal", "journal.1", "journal.11"});
  const std::vector<Extent> found = place.extents();
  CHECK(found.size() == 2);  // 0 to 20 and 110 to 120
  pipeline::replace_journals(place.root.path(), kFiles, found);
  CHECK(place.names() == std::vector<std::string>{"journal"});
  CHECK(place.extents() == found);
  pipeline::remove_journals(place.root.path());
  CHECK(place.names().empty());
}

TEST_CASE("a process that is killed has told all but the last 8 MiB, however many files it has open") {
  const Place place;
  JournaledFiles files{"00000000000000aa", {}, {}};
  for (int f = 0; f < 64; ++f) {
    files.names.push_back(fmt::format("f{}", f));
    files.bytes.push_back(100 * kMiB);
  }
  pipeline::replace_journals(place.root.path(), files, {});
  Journal journal(place.root.path(), files, 0);
  journal.open();
  std::int64_t written = 0;
  for (std::int64_t at = 0; at < 4 * kMiB; at += kMiB / 4)
    for (std::size_t f = 0; f < files.names.size(); ++f) {
      journal.add({f, at, at + kMiB / 4, 0});
      written += kMiB / 4;
      std::int64_t told = 0;
      for (const Extent& extent : pipeline::read_journals(place.root.path(), files)) told += extent.end - extent.begin;
      CHECK(written - told < 8 * kMiB);
    }
}

TEST_CASE("what threads have written is told once") {
  const Place place;
  pipeline::replace_journals(place.root.path(), kFiles, {});
  {
    Journal journal(place.root.path(), kFiles, 0);
    journal.open();
    std::vector<std::jthread> threads;
    for (std::int64_t t = 0; t < 4; ++t)
      threads.emplace_back([&journal, t] {
        for (std::int64_t i = t; i < 256; i += 4) journal.add({0, i * kMiB, (i + 1) * kMiB, 0});
      });
  }
  const std::vector<Extent> found = place.extents();
  REQUIRE(found.size() == 4);
  for (std::int64_t i = 0; i < 4; ++i)
    CHECK(found[static_cast<std::size_t>(i)] == Extent{0, i * 64 * kMiB, (i + 1) * 64 * kMiB, 0});
}

TEST_CASE("names of the staging directory's own files") {
  CHECK(pipeline::is_staging_name("journal"));
  CHECK(pipeline::is_staging_name("journal.7"));
  CHECK_FALSE(pipeline::is_staging_name("journals"));
  CHECK_FALSE(pipeline::is_staging_name("a/journal"));
}
