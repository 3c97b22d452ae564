#include "reshard/pipeline/trusted.hpp"

#include <doctest/doctest.h>

#include <random>
#include <span>
#include <vector>

#include "reshard/base/crc64.hpp"

using namespace reshard;
using pipeline::Extent;
using pipeline::Trusted;

namespace {

std::vector<std::byte> noise(std::size_t n) {
  std::mt19937_64 random(5);
  std::vector<std::byte> out(n);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

}  // namespace

TEST_CASE("the trusted extent at or behind a position of a file") {
  Trusted trusted;
  CHECK(trusted.find(0, 0) == trusted.size());
  CHECK_FALSE(trusted.is_kept(0));
  trusted.trust({true, false, true}, {{0, 10, 20, 0}, {0, 30, 40, 0}, {2, 5, 6, 0}});
  CHECK(trusted.bytes() == 21);
  CHECK(trusted.is_kept(0));
  CHECK_FALSE(trusted.is_kept(1));
  const std::vector<std::vector<std::int64_t>> cases = {{0, 0, 0},  {0, 10, 0}, {0, 19, 0}, {0, 20, 1}, {0, 39, 1},
                                                        {0, 40, 3}, {1, 0, 3},  {2, 0, 2},  {2, 6, 3}};
  for (const std::vector<std::int64_t>& c : cases) {
    CAPTURE(c[0]);
    CAPTURE(c[1]);
    CHECK(trusted.find(static_cast<std::size_t>(c[0]), c[1]) == static_cast<std::size_t>(c[2]));
  }
}

TEST_CASE("pieces skipped in any order are compared with what is there; what nobody writes counts as zeros") {
  const auto alone = exchange::alone();
  std::vector<std::byte> content = noise(1000);
  std::fill_n(content.begin() + 400, 100, std::byte{0});
  const auto piece = [&](std::size_t begin, std::size_t end) {
    return crc64::raw(0, std::span(content).subspan(begin, end - begin));
  };
  for (const bool changed : {false, true}) {
    Trusted trusted;
    trusted.trust({true}, {{0, 0, 1000, piece(0, 1000)}, {0, 2000, 2001, 0}});
    if (changed) content[777] ^= std::byte{4};
    trusted.skip(0, 1000, piece(500, 1000));
    trusted.skip(0, 100, piece(0, 100));
    trusted.skip(0, 400, piece(100, 400));
    CHECK(trusted.changed(*alone) == (changed ? std::vector<std::size_t>{0} : std::vector<std::size_t>{}));
  }
}

TEST_CASE("gaps of a kept file are what was neither written nor skipped") {
  using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  Trusted trusted;
  trusted.trust({true}, {});
  trusted.cover(0, 10, 20);
  trusted.cover(0, 20, 30);
  CHECK(trusted.gaps(0, 0, 40) == Ranges{{0, 10}, {30, 40}});
}
