#include "reshard/plan/size.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace reshard::plan;

TEST_CASE("sizes are whole numbers with units of 1000 or 1024") {
  CHECK(parse_size("0") == 0);
  CHECK(parse_size("4096") == 4096);
  CHECK(parse_size("7B") == 7);
  CHECK(parse_size("512MB") == 512000000);
  CHECK(parse_size("100KiB") == 102400);
  CHECK(parse_size("5GiB") == std::int64_t{5} << 30);
  CHECK(parse_size("8388607TiB") == std::int64_t{8388607} << 40);
}

TEST_CASE("everything else is no size") {
  for (const std::string text : {"", "GiB", "-1", "-1B", "+1", "1.5GiB", "5 GiB", "5gib", "5G", "5GiBs", "0x10",
                                 "8388608TiB", "9223372036854775808", " 5", "5 "}) {
    CAPTURE(text);
    CHECK_FALSE(parse_size(text).has_value());
  }
}
