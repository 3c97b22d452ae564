#include "reshard/report/progress_text.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using reshard::report::progress_text;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

}  // namespace

TEST_CASE("progress tells share, bytes, rate and time left") {
  CHECK(progress_text(256 * kMiB, 1024 * kMiB, 2) == " 25 %  256 MiB of 1 GiB  128 MiB/s  6.0 s left");
  CHECK(progress_text(1024 * kMiB, 1024 * kMiB, 8) == "100 %  1 GiB of 1 GiB  128 MiB/s  0 s left");
  CHECK(progress_text(512 * kMiB, 1024 * 1024 * kMiB / 2, 1).ends_with("512 MiB/s"));  // a thousandth
}

TEST_CASE("no time left is told before a hundredth is done") {
  CHECK(progress_text(0, 1024 * kMiB, 20) == "  0 %  0 B of 1 GiB");
  CHECK(progress_text(9 * kMiB, 1000 * kMiB, 9) == "  1 %  9 MiB of 1000 MiB  1 MiB/s");
  CHECK(progress_text(10 * kMiB, 1000 * kMiB, 10) == "  1 %  10 MiB of 1000 MiB  1 MiB/s  16 min 30 s left");
}
