#include "reshard/pipeline/extents.hpp"

#include <doctest/doctest.h>

#include <random>
#include <span>
#include <utility>
#include <vector>

#include "reshard/base/crc64.hpp"

using namespace reshard;
using pipeline::Extent;
using pipeline::Extents;
using pipeline::kCutBytes;

namespace {

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

std::vector<std::byte> noise(std::size_t n) {
  std::mt19937_64 random(11);
  std::vector<std::byte> out(n);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

/// Bytes [begin, end) of a file that holds `content`.
Extent extent_of(std::size_t file, std::span<const std::byte> content, std::int64_t begin, std::int64_t end) {
  return {file, begin, end,
          crc64::raw(0, content.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)))};
}

}  // namespace

TEST_CASE("pieces that meet are one extent, whatever their order") {
  const std::vector<std::byte> content = noise(1000);
  const std::vector<Ranges> orders = {{{100, 200}, {200, 450}, {450, 1000}},
                                      {{450, 1000}, {200, 450}, {100, 200}},
                                      {{100, 200}, {450, 1000}, {200, 450}}};
  for (const Ranges& order : orders) {
    Extents extents;
    for (const auto& [begin, end] : order) CHECK(extents.add(extent_of(3, content, begin, end)));
    CHECK(extents.all() == std::vector<Extent>{extent_of(3, content, 100, 1000)});
    CHECK(extents.bytes() == 900);
  }
}

TEST_CASE("pieces that do not meet, or lie in different files, stay apart") {
  const std::vector<std::byte> content = noise(100);
  Extents extents;
  const std::vector<Extent> apart = {extent_of(0, content, 0, 10), extent_of(0, content, 11, 20),
                                     extent_of(1, content, 20, 30), extent_of(2, content, 0, 20)};
  for (const std::size_t i : {2U, 0U, 3U, 1U}) CHECK(extents.add(apart[i]));
  CHECK(extents.all() == apart);
}

TEST_CASE("nothing is joined over a multiple of 64 MiB") {
  Extents extents;
  CHECK(extents.add({0, kCutBytes - 5, kCutBytes, 1}));
  CHECK(extents.add({0, kCutBytes, kCutBytes + 5, 2}));
  CHECK(extents.all() == std::vector<Extent>{{0, kCutBytes - 5, kCutBytes, 1}, {0, kCutBytes, kCutBytes + 5, 2}});
  CHECK(pipeline::next_cut(0) == kCutBytes);
  CHECK(pipeline::next_cut(kCutBytes - 1) == kCutBytes);
  CHECK(pipeline::next_cut(kCutBytes) == 2 * kCutBytes);
}

TEST_CASE("an extent that overlaps another is not taken") {
  Extents extents;
  CHECK(extents.add({0, 10, 20, 1}));
  for (const auto& [begin, end] : Ranges{{10, 20}, {0, 11}, {19, 25}, {12, 15}, {0, 30}})
    CHECK_FALSE(extents.add({0, begin, end, 2}));
  CHECK(extents.all() == std::vector<Extent>{{0, 10, 20, 1}});
  CHECK(extents.bytes() == 10);
  CHECK(extents.add({1, 10, 20, 1}));
}

TEST_CASE("gaps are what no extent holds") {
  Extents extents;
  extents.add({1, 10, 20, 0});
  extents.add({1, 30, 40, 0});
  extents.add({2, 0, 100, 0});
  CHECK(extents.gaps(1, 0, 50) == Ranges{{0, 10}, {20, 30}, {40, 50}});
  CHECK(extents.gaps(1, 15, 35) == Ranges{{20, 30}});
  CHECK(extents.gaps(1, 25, 35) == Ranges{{25, 30}});
  CHECK(extents.gaps(1, 0, 5) == Ranges{{0, 5}});
  CHECK(extents.gaps(1, 10, 20) == Ranges{});
  CHECK(extents.gaps(1, 20, 30) == Ranges{{20, 30}});
  CHECK(extents.gaps(0, 5, 7) == Ranges{{5, 7}});
  CHECK(extents.gaps(2, 50, 120) == Ranges{{100, 120}});
  CHECK(extents.gaps(3, 0, 1) == Ranges{{0, 1}});
}
