#include "reshard/base/error.hpp"

#include <doctest/doctest.h>

using namespace reshard;

TEST_CASE("an error's exit code is that of its first issue unless another is given") {
  CHECK(Error(Issue{ErrorCode::kUsage, "", "", "x"}).exit() == Exit::kUsage);
  CHECK(Error({Issue{ErrorCode::kShape, "", "", "x"}, Issue{ErrorCode::kIo, "", "", "y"}}).exit() == Exit::kCheckpoint);
  CHECK(Error(Exit::kPlan, {Issue{ErrorCode::kUnsupported, "", "", "x"}}).exit() == Exit::kPlan);
}

TEST_CASE("an issue is one line whatever stands in names") {
  CHECK(to_line(Issue{ErrorCode::kShape, "a\nb", "w\t\x01", "found 1"}) ==
        "E_SHAPE: a\\nb: tensor 'w\\t\\x01': found 1");
  // Characters beyond ASCII stay; bytes that are none (overlong, surrogate, cut off) are told as bytes.
  CHECK(to_line(Issue{ErrorCode::kShape, "", "gew\xc3\xa4hr", "\xc0\xaf \xed\xa0\x80 \xe2\x82"}) ==
        "E_SHAPE: tensor 'gew\xc3\xa4hr': \\xc0\\xaf \\xed\\xa0\\x80 \\xe2\\x82");
  CHECK(std::string(Error({Issue{ErrorCode::kShape, "f", "", "x"}, Issue{ErrorCode::kIo, "", "t", "y"}}).what()) ==
        "E_SHAPE: f: x\nE_IO: tensor 't': y");
}

TEST_CASE("every code has a name of its own that leads back to it") {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInterrupted); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    CHECK(code_from_name(code_name(code)) == code);
  }
}
