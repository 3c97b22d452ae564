#include "reshard/report/text.hpp"

#include <doctest/doctest.h>

using namespace reshard;
using namespace reshard::report;

TEST_CASE("sizes are told in the largest unit that fits") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1024) == "1 KiB");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(bytes_text(1048575) == "1 MiB");
  CHECK(bytes_text(std::int64_t{512} << 20) == "512 MiB");
  CHECK(bytes_text(16060522240) == "14.96 GiB");
  CHECK(bytes_text(std::int64_t{5000} << 50) == "5000 PiB");
}

TEST_CASE("times are told in the unit that fits, long ones in two") {
  CHECK(seconds_text(0) == "0 s");
  CHECK(seconds_text(1e-6) == "<1 ms");
  CHECK(seconds_text(0.001) == "1 ms");
  CHECK(seconds_text(0.0123) == "12 ms");
  CHECK(seconds_text(0.9994) == "999 ms");
  CHECK(seconds_text(0.9996) == "1.0 s");
  CHECK(seconds_text(3.24) == "3.2 s");
  CHECK(seconds_text(59.94) == "59.9 s");
  CHECK(seconds_text(59.96) == "1 min 0 s");
  CHECK(seconds_text(310) == "5 min 10 s");
  CHECK(seconds_text(3599.4) == "59 min 59 s");
  CHECK(seconds_text(3599.6) == "1 h 0 min");
  CHECK(seconds_text(7380) == "2 h 3 min");
}

TEST_CASE("a list of names ends where it gets long") {
  CHECK(names_text({"a", "b"}, 2) == "a, b");
  CHECK(names_text({"a\n", "b", "c"}, 2) == "a\\n, b and 1 more");
}

TEST_CASE("text behind a label is broken at 80 columns") {
  CHECK(labelled("transport",
                 "direct: the processes read 1.00 times the source's bytes, which is cheaper than sending") ==
        "  transport  direct: the processes read 1.00 times the source's bytes, which is\n"
        "             cheaper than sending\n");
}

TEST_CASE("names that would be overlooked stand in quotes in lists") {
  CHECK(names_text({"", " b", "c"}, 8) == "\"\", \" b\", c");
}

TEST_CASE("blanks that belong to a name stay") {
  CHECK(paragraph("\"a  b\" -> \"   \"") == "  \"a  b\" -> \"   \"\n");
}

TEST_CASE("a word that is too long behind a label stands on a line of its own") {
  const std::string word(75, 'w');
  CHECK(labelled("mesh", word + " tp=2") == "  mesh\n     " + word + "\n             tp=2\n");
}

TEST_CASE("a list that is one word is broken at its commas") {
  std::string list = "layers.{0";
  for (int i = 2; i < 60; i += 2) list += "," + std::to_string(i);
  CHECK(paragraph(list + "}.w") ==
        "  layers.{0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46,48,\n"
        "  50,52,54,56,58}.w\n");
}

TEST_CASE("a report's long lines are paragraphs on a terminal, but for those of tables") {
  const std::string word(40, 'w');
  const std::string line = word + " " + word;
  CHECK(wrapped_lines("a\n" + line + "\n  " + line + "\n") == "a\n" + word + "\n  " + word + "\n  " + line + "\n");
}

TEST_CASE("warnings are one paragraph each") {
  CHECK(warnings_text({{"W_INDEX", "i.json", kNoTensor, "total_size"}, {"W_X", "", "t", "m"}}) ==
        "warning: W_INDEX: i.json: total_size\nwarning: W_X: tensor 't': m\n");
}

TEST_CASE("cells stand under each other") {
  Table table({Table::Align::kLeft, Table::Align::kRight, Table::Align::kLeft});
  table.row({"a", "1", "x"});
  table.row({"\xc3\xa4\xc3\xb6", "100", ""});
  CHECK(table.text() ==
        "  a     1  x\n"
        "  \xc3\xa4\xc3\xb6  100\n");
}

TEST_CASE("a first cell that is too wide has its own line") {
  const std::string wide(70, 'w');
  Table table({Table::Align::kLeft, Table::Align::kLeft});
  table.row({"short", "0123456789"});
  table.row({wide, "b"});
  CHECK(table.text() == "  short  0123456789\n  " + wide + "\n         b\n");
}

TEST_CASE("cells that do not fit beside each other are folded at blanks") {
  Table table({Table::Align::kLeft, Table::Align::kLeft, Table::Align::kLeft, Table::Align::kRight});
  const std::string twice = "1000000000:2000000000, 1000000000:2000000000,";  // 45 columns
  table.row({"0", twice, twice, "8 B"});
  CHECK(table.text() ==
        "  0  1000000000:2000000000,  1000000000:2000000000,  8 B\n"
        "     1000000000:2000000000,  1000000000:2000000000,\n");
}

TEST_CASE("cells of words that fit no line together follow each other") {
  Table table({Table::Align::kLeft, Table::Align::kLeft, Table::Align::kLeft, Table::Align::kRight});
  const std::string word(50, 'w');
  table.row({"0", word, word, "8 B"});
  CHECK(table.text() == "  0  " + word + "\n    " + word + "  8 B\n");
}
