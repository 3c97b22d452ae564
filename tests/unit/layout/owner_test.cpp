#include "reshard/layout/owner.hpp"

#include <doctest/doctest.h>

#include "support/cut_text.hpp"

using namespace reshard;
using namespace reshard::layout;
using cut_text::refusal;

TEST_CASE("numbers are shared equally, or as the split says") {
  const Ownership experts("ep", 4, 8);
  CHECK(experts.locate(5) == OwnedNumber{5, 2, 1});
  const Ownership stages("pp", 4, 32, {9, 8, 8, 7});
  CHECK(stages.locate(17) == OwnedNumber{17, 2, 0});
  CHECK(stages.locate(31) == OwnedNumber{31, 3, 6});
  CHECK(stages.locate_local(1, 7) == OwnedNumber{16, 1, 7});
}

TEST_CASE("a coordinate without numbers has none") {
  const Ownership stages("pp", 3, 4, {2, 0, 2});
  CHECK(stages.locate(2) == OwnedNumber{2, 2, 0});
  CHECK(refusal([&] { stages.locate_local(1, 0); }) ==
        "E_OWNER: owner: local number 0 on coordinate 1 of axis 'pp', which has 0");
}

TEST_CASE("over one coordinate a split for the other side is all its own") {
  CHECK(Ownership("pp", 1, 32, {9, 8, 8, 7}).locate(17) == OwnedNumber{17, 0, 17});
}

TEST_CASE("numbers and shares that do not fit are refused") {
  CHECK(refusal([] { Ownership("ep", 2, 8).locate(8); }) == "E_OWNER: owner: number 8 on axis 'ep', expected 0 to 7");
  CHECK(refusal([] { Ownership("ep", 3, 8); }) ==
        "E_OWNER: owner: 8 numbers are not a multiple of the size 3 of axis 'ep'; give the shares with 'split'");
  CHECK(refusal([] {
          Ownership("pp", 2, 32, {9, 8, 8, 7});
        }) == "E_OWNER: owner: 'split' has 4 shares, axis 'pp' has size 2");
  CHECK(refusal([] {
          Ownership("pp", 2, 32, {9, 8});
        }) == "E_OWNER: owner: the shares of 'split' sum to 17, expected 32");
}
