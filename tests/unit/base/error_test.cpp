#include "reshard/base/error.hpp"

#include <doctest/doctest.h>

using namespace reshard;

TEST_CASE("an error's exit code is that of its first issue unless another is given") {
  CHECK(Error(Issue{ErrorCode::kUsage, "", kNoTensor, "x"}).exit() == Exit::kUsage);
  CHECK(Error({Issue{ErrorCode::kShape, "", kNoTensor, "x"}, Issue{ErrorCode::kIo, "", kNoTensor, "y"}}).exit() ==
        Exit::kCheckpoint);
  CHECK(Error(Exit::kPlan, {Issue{ErrorCode::kUnsupported, "", kNoTensor, "x"}}).exit() == Exit::kPlan);
}

TEST_CASE("an issue is one line whatever stands in names") {
  CHECK(to_line(Issue{ErrorCode::kShape, "a\nb", "w\t\x01", "found 1"}) ==
        "E_SHAPE: a\\nb: tensor 'w\\t\\x01': found 1");
  // Characters beyond ASCII stay; bytes that are none (overlong, surrogate, cut off) are told as bytes.
  CHECK(to_line(Issue{ErrorCode::kShape, "", "gew\xc3\xa4hr", "\xc0\xaf \xed\xa0\x80 \xe2\x82"}) ==
        "E_SHAPE: tensor 'gew\xc3\xa4hr': \\xc0\\xaf \\xed\\xa0\\x80 \\xe2\\x82");
  CHECK(
      std::string(Error({Issue{ErrorCode::kShape, "f", kNoTensor, "x"}, Issue{ErrorCode::kIo, "", "t", "y"}}).what()) ==
      "E_SHAPE: f: x\nE_IO: tensor 't': y");
}

TEST_CASE("a tensor is named whatever its name, and no tensor is not") {
  CHECK(to_line(Issue{ErrorCode::kShape, "f", "", "x"}) == "E_SHAPE: f: tensor \"\": x");
  CHECK(to_line(Issue{ErrorCode::kShape, "f", "w ", "x"}) == "E_SHAPE: f: tensor \"w \": x");
  CHECK(to_line(Warning{"W_X", "f", "a b", "x"}) == "W_X: f: tensor 'a b': x");
  CHECK(to_line(Warning{"W_X", "f", kNoTensor, "x"}) == "W_X: f: x");
}

TEST_CASE("names that would be overlooked or mistaken stand in quotes") {
  CHECK(name_text("w") == "w");
  CHECK(name_text("a b\n") == "a b\\n");
  CHECK(name_text("") == "\"\"");
  CHECK(name_text("  ") == "\"  \"");
  CHECK(name_text(" w") == "\" w\"");
  CHECK(name_text("w ") == "\"w \"");
  CHECK(name_text("\"w\"") == "\"\"w\"\"");
  CHECK(name_text("w\"") == "w\"");
  CHECK(name_text("w\xc2\xa0") == "\"w\xc2\xa0\"");          // U+00A0
  CHECK(name_text("\xe3\x80\x80w") == "\"\xe3\x80\x80w\"");  // U+3000
}

TEST_CASE("characters that would change how a line is shown are told by their numbers") {
  CHECK(escaped("a\xc2\x9b"
                "31mb") == "a\\u009b31mb");                                       // C1: CSI
  CHECK(escaped("\xc2\x80\xc2\x9f\xc2\xa0") == "\\u0080\\u009f\xc2\xa0");         // its ends; U+00A0 stays
  CHECK(escaped("w\xe2\x80\xaetxt\xe2\x80\xac") == "w\\u202etxt\\u202c");         // U+202E, U+202C
  CHECK(escaped("\xe2\x81\xa6\xe2\x81\xa9") == "\\u2066\\u2069");                 // isolates
  CHECK(escaped("\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c") == "\\u200e\\u200f\\u061c");  // marks of direction
  CHECK(escaped("\xe2\x80\xa8\xe2\x80\xa9") == "\\u2028\\u2029");                 // line, paragraph
  CHECK(escaped("\xe2\x80\x8b\xe2\x80\x8d\xe2\x81\xa0\xef\xbb\xbf") == "\\u200b\\u200d\\u2060\\ufeff");
  CHECK(escaped("\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf") ==
        "\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf");  // what stands beside
  CHECK(escaped("\xf0\x9f\x98\x80\xe6\xbc\xa2") == "\xf0\x9f\x98\x80\xe6\xbc\xa2");
}

TEST_CASE("every code has a name of its own that leads back to it") {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInterrupted); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    CHECK(code_from_name(code_name(code)) == code);
  }
}
