#include "reshard/base/json.hpp"

#include <doctest/doctest.h>

#include <string>

#include "reshard/base/error.hpp"

using namespace reshard;

namespace {

std::string code_of(std::string_view text, JsonLimits limits = {}) {
  try {
    parse_json(text, "t", limits);
  } catch (const Error& error) {
    return std::string(code_name(error.issues().front().code)) + " " + error.issues().front().where;
  }
  return "accepted";
}

}  // namespace

TEST_CASE("values keep their kind and the place they were written at") {
  const Value v = parse_json("{\"a\": [1, -2.0, \"x\"],\n  \"b\": {\"c\": null, \"d\": true}}", "t");
  REQUIRE(v.is_object());
  CHECK(v.find("a")->position == Position{1, 7});
  CHECK(v.find("a")->array()[0].integer() == 1);
  CHECK(v.find("a")->array()[0].position == Position{1, 8});
  CHECK(v.find("a")->array()[1].is_float());
  CHECK(v.find("a")->array()[1].position == Position{1, 11});
  CHECK(v.find("a")->array()[2].position == Position{1, 17});
  CHECK(v.find("b")->position == Position{2, 8});
  CHECK(v.object()[1].position == Position{2, 3});
  CHECK(v.find("b")->find("d")->position == Position{2, 25});
  CHECK(canonical_json(v) == "{\"a\":[1,-2.0,\"x\"],\"b\":{\"c\":null,\"d\":true}}");
}

TEST_CASE("every kind of blank may stand between values") {
  const Value v = parse_json("{\"a\":\t1,\r\n\t\"b\":\r[true\t,2\r\n]}", "t");
  CHECK(v.find("a")->position == Position{1, 7});
  CHECK(v.object()[1].position == Position{2, 2});
  CHECK(v.find("b")->position == Position{2, 7});
  CHECK(v.find("b")->array()[0].position == Position{2, 8});
  CHECK(v.find("b")->array()[1].position == Position{2, 14});
}

TEST_CASE("a repeated key is refused at every level") {
  CHECK(code_of("{\"a\":1,\"a\":2}") == "E_DUP_KEY t:1:8");
  CHECK(code_of("{\"x\":[{\"a\":1,\n\"a\":2}]}") == "E_DUP_KEY t:2:1");
  CHECK(code_of("{\"a\":1,\"b\":{\"a\":2}}") == "accepted");
  CHECK(code_of("{\"a\":{\"x\":1},\"b\":{\"x\":2},\"c\":[{\"x\":3},{\"x\":4}]}") == "accepted");
  CHECK(code_of("{\"a\":{\"x\":1},\"b\":{\"a\":2},\"a\":3}") == "E_DUP_KEY t:1:26");
}

TEST_CASE("a repeated key is refused however it is spelled") {
  CHECK(code_of(R"({"a":1,"\u0061":2})") == "E_DUP_KEY t:1:8");
  CHECK(code_of(R"({"\u0061":1,"a":2})") == "E_DUP_KEY t:1:13");
  CHECK(code_of(R"({"\"\\":1, "\u0022\u005c":2})") == "E_DUP_KEY t:1:12");
  CHECK(code_of(R"({"\"":1,"\\":2,"\\\"":3})") == "accepted");
}

TEST_CASE("a repeated key is found among many") {
  std::string text = "{";
  for (int i = 0; i < 100; ++i) text += "\"key" + std::to_string(i) + "\":[" + std::to_string(i) + "],\n";
  CHECK(code_of(text + "\"key100\":0}") == "accepted");
  for (const int i : {0, 8, 9, 99}) CHECK(code_of(text + "\"key" + std::to_string(i) + "\":0}") == "E_DUP_KEY t:101:1");
  // The next object of the same depth has keys of its own.
  CHECK(code_of("[" + text + "\"key100\":0}, {\"key0\":0}]") == "accepted");
}

TEST_CASE("what is not JSON is refused with its place") {
  CHECK(code_of("{\"a\":1,}").substr(0, 8) == "E_SYNTAX");
  CHECK(code_of("").substr(0, 8) == "E_SYNTAX");
  CHECK(code_of("[NaN]").substr(0, 8) == "E_SYNTAX");
  CHECK(code_of("[1] x").substr(0, 8) == "E_SYNTAX");
  CHECK(code_of("\xef\xbb\xbf[1]") == "E_SYNTAX t:1:1");
  CHECK(code_of(std::string_view("[1]\0", 4)) == "E_SYNTAX t");
  CHECK(code_of("[\"\xff\"]").substr(0, 8) == "E_SYNTAX");
  CHECK(code_of("{\"a\":1,\n \"b\": x}") == "E_SYNTAX t:2:7");
  CHECK(code_of("[1,\n2") == "E_SYNTAX t:2:1");
}

TEST_CASE("nesting beyond the limit is refused without recursion") {
  CHECK(code_of("[[[1]]]", JsonLimits{3}) == "accepted");
  CHECK(code_of("[[[[1]]]]", JsonLimits{3}) == "E_SYNTAX t:1:4");
  CHECK(code_of(std::string(1000000, '[')).substr(0, 8) == "E_SYNTAX");
}

TEST_CASE("a number beyond 64 bits is a float, not a wrapped integer") {
  CHECK(parse_json("9223372036854775807", "t").integer() == 9223372036854775807);
  CHECK(parse_json("9223372036854775808", "t").is_float());
  CHECK(parse_json("18446744073709551616", "t").is_float());
}
