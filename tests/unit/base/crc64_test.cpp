#include "reshard/base/crc64.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::byte> noise(std::size_t n) {
  std::mt19937_64 random(7);
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

}  // namespace

using namespace reshard;

TEST_CASE("the digest is CRC-64/XZ: its published check value") {
  CHECK(crc64::digest(bytes_of("123456789")) == 0x995dc9bbdf1939fa);
  CHECK(crc64::digest({}) == 0);
  CHECK(crc64::to_hex(crc64::digest(bytes_of("123456789"))) == "995dc9bbdf1939fa");
}

TEST_CASE("pieces in any order join to the digest of the whole") {
  const std::vector<std::byte> whole = noise(10007);
  const std::span<const std::byte> all(whole);
  const std::vector<std::size_t> cuts = {0, 1, 9, 9, 64, 4096, 5000, 10000, 10007};
  std::uint64_t sum = 0;
  for (std::size_t i = cuts.size() - 1; i > 0; --i) {
    const auto piece = all.subspan(cuts[i - 1], cuts[i] - cuts[i - 1]);
    sum ^= crc64::shift(crc64::raw(0, piece), static_cast<std::int64_t>(whole.size() - cuts[i]));
  }
  CHECK(crc64::finish(sum, static_cast<std::int64_t>(whole.size())) == crc64::digest(all));
}

TEST_CASE("the raw register of a piece follows from its digest and length") {
  for (const std::size_t n : {0U, 1U, 9U, 1000U}) {
    const std::vector<std::byte> piece = noise(n);
    CHECK(crc64::unfinish(crc64::digest(piece), static_cast<std::int64_t>(n)) == crc64::raw(0, piece));
  }
}

TEST_CASE("a shift is the register after that many zero bytes") {
  const std::vector<std::byte> piece = noise(33);
  for (const std::int64_t zeros : {0, 1, 2, 7, 8, 255, 256, 4095, 100000}) {
    const std::vector<std::byte> tail(static_cast<std::size_t>(zeros));
    const std::uint64_t expected = crc64::raw(crc64::raw(0, piece), tail);
    CHECK(crc64::shift(crc64::raw(0, piece), zeros) == expected);
    CHECK(crc64::Shift(zeros)(crc64::raw(0, piece)) == expected);
  }
}
