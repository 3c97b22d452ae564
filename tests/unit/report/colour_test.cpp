#include "reshard/report/colour.hpp"

#include <doctest/doctest.h>

using reshard::report::coloured;

TEST_CASE("titles are bold, labels dim, warnings yellow, everything else is as it was") {
  CHECK(
      coloured("plan 1f\n  source     tp=2\n             more\n\ntensors\n  w  f32\n\nwarning: W: x\n  more\nnotice: "
               "W: y\n") ==
      "\x1b[1mplan 1f\x1b[0m\n\x1b[2m  source     \x1b[0mtp=2\n             more\n\n\x1b[1mtensors\x1b[0m\n  w  f32\n\n"
      "\x1b[33mwarning: W: x\x1b[0m\n  more\n\x1b[2mnotice: W: y\x1b[0m\n");
  CHECK(coloured("") == "");
  CHECK(coloured("\n\n") == "\n\n");
  CHECK(coloured("  x") == "  x");
}
