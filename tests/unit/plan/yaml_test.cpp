#include "reshard/plan/yaml.hpp"

#include <doctest/doctest.h>

#include <string>

#include "reshard/base/error.hpp"
#include "reshard/plan/document.hpp"

using namespace reshard;
using namespace reshard::plan;

namespace {

Value yaml(std::string_view text) {
  return read_document(text, Notation::kYaml, "t");
}

/// "E_SYNTAX t:1:4", or the value as JSON.
std::string outcome(std::string_view text, Notation notation = Notation::kYaml) {
  try {
    return canonical_json(read_document(text, notation, "t"));
  } catch (const Error& error) {
    return std::string(code_name(error.issues().front().code)) + " " + error.issues().front().where;
  }
}

std::string message(std::string_view text) {
  try {
    yaml(text);
  } catch (const Error& error) {
    return error.issues().front().message;
  }
  return "";
}

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("a plain YAML scalar is what it is in JSON, and text otherwise") {
  CHECK(outcome("[4, -1, 0, -0, 1.5, 1e3, 4.0]") == "[4,-1,0,0,1.5,1e3,4.0]");
  CHECK(outcome("[null, ~, , true, false]") == "[null,null,null,true,false]");
  CHECK(outcome("[5GiB, 0/32, no, on, yes, True, TRUE, Null, NULL, tp, ., -, out in/128]") ==
        R"(["5GiB","0/32","no","on","yes","True","TRUE","Null","NULL","tp",".","-","out in/128"])");
  CHECK(outcome("[\"4\", '4', \"null\", \"\", '0x4', \"true\"]") == R"(["4","4","null","","0x4","true"])");
  CHECK(outcome("[9223372036854775807, 9223372036854775808]") == "[9223372036854775807,9223372036854775808]");
  CHECK(yaml("9223372036854775808").is_float());
  CHECK(yaml("4.0").is_float());
}

TEST_CASE("a plain scalar that another YAML reads as a number is refused, quoted it is text") {
  for (const std::string text :
       {"04",        "0x4",  "0o17",  "0b1",   "1_000", "+1",   "+1.5", ".5",  "5.",    "-.5",  "1:30",
        "1:30:15.5", ".inf", "-.inf", "+.Inf", ".nan",  ".NaN", "00",   "-04", "1_0.5", "1.e5", "09"}) {
    CAPTURE(text);
    CHECK(outcome("a: " + text) == "E_SYNTAX t:1:4");
    CHECK(outcome(text + ": a") == "E_SYNTAX t:1:1");
    CHECK(outcome("a: \"" + text + "\"") == "{\"a\":\"" + text + "\"}");
  }
  for (const std::string text : {"1.2.3", "0/32", "5GiB", "tp=4", "1-2", "e5", "inf", "0x", "_1", "2024-01-01"}) {
    CAPTURE(text);
    CHECK(outcome("a: " + text) == "{\"a\":\"" + text + "\"}");
  }
}

TEST_CASE("the words Null and NULL are text, an empty value before a key of that name is null") {
  CHECK(outcome("a: Null\nb: NULL") == R"({"a":"Null","b":"NULL"})");
  CHECK(outcome("a:\nNull: 2") == R"({"Null":2,"a":null})");
  CHECK(outcome("a:\n  b:\nNull: 2") == R"({"Null":2,"a":{"b":null}})");
  CHECK(outcome("- Null\n- NULL") == R"(["Null","NULL"])");
  CHECK(outcome("~: 1") == R"({"~":1})");
  CHECK(outcome("null: 1") == R"({"null":1})");
}

TEST_CASE("values and keys keep the place they were written at") {
  const Value v = yaml("a: [1, \"x\"]\nb:\n  - c: 2\n    d: {e: f}\n");
  CHECK(v.position == Position{1, 1});
  CHECK(v.find("a")->position == Position{1, 4});
  CHECK(v.find("a")->array()[1].position == Position{1, 8});
  CHECK(v.object()[1].position == Position{2, 1});
  const Value& item = v.find("b")->array()[0];
  CHECK(item.position == Position{3, 5});
  CHECK(item.find("c")->position == Position{3, 8});
  CHECK(item.find("d")->find("e")->position == Position{4, 12});
}

TEST_CASE("what YAML has beyond JSON is refused with its place") {
  CHECK(outcome("a: !!int 3") == "E_SYNTAX t:1:4");
  CHECK(outcome("a: !x 3") == "E_SYNTAX t:1:4");
  CHECK(outcome("a: ! x") == "E_SYNTAX t:1:4");
  CHECK(outcome("a: ! \"x\"") == "E_SYNTAX t:1:4");
  CHECK(outcome("a: !!map {b: 1}") == "E_SYNTAX t:1:4");
  CHECK(outcome("a: ! [b]") == "E_SYNTAX t:1:4");
  CHECK(outcome("a: &x 1\nb: *x") == "E_SYNTAX t:1:4");
  CHECK(outcome("a: &x [*x]") == "E_SYNTAX t:1:4");
  CHECK(outcome("b: *x") == "E_SYNTAX t:1:4");
  CHECK(outcome("<<: {a: 1}") == "E_SYNTAX t:1:1");
  CHECK(outcome("\"<<\": 1") == R"({"<<":1})");
  CHECK(outcome("a: 1\n---\nb: 2\n") == "E_SYNTAX t:2:1");
  CHECK(outcome("? [a]\n: b") == "E_SYNTAX t:1:3");
  CHECK(outcome("? {a: 1}\n: b") == "E_SYNTAX t:1:3");
  CHECK(outcome("--- # one document\na: 1\n...\n") == R"({"a":1})");
}

TEST_CASE("a file that ends inside a quoted text or a collection is refused") {
  for (const std::string text : {"a: 'x\n", "a: 'it''s\n", "a: \"x\n", "a: \"x\\\"\n", "a: '", "a: \""}) {
    CAPTURE(text);
    CHECK(outcome(text) == "E_SYNTAX t:1:4");
  }
  CHECK(outcome("'a").substr(0, 8) == "E_SYNTAX");
  CHECK(outcome("a: [1").substr(0, 8) == "E_SYNTAX");
  CHECK(outcome("a: {b: 1,").substr(0, 8) == "E_SYNTAX");
  CHECK(outcome("a: ['it''s', \"q\\\"\", '', \"\\\\\"]\nb: |\n  'x\n") == R"({"a":["it's","q\"","","\\"],"b":"'x\n"})");
}

TEST_CASE("a repeated key is refused at every level and in every spelling") {
  CHECK(outcome("a: 1\na: 2") == "E_DUP_KEY t:2:1");
  CHECK(outcome("{a: 1, a: 2}") == "E_DUP_KEY t:1:8");
  CHECK(outcome("{0: x, \"0\": y}") == "E_DUP_KEY t:1:8");
  CHECK(outcome("x: [{b: {a: 1, 'a': 2}}]") == "E_DUP_KEY t:1:16");
  CHECK(outcome("x: {a: 1}\ny: {a: 1}") == R"({"x":{"a":1},"y":{"a":1}})");
}

TEST_CASE("text that is no text is refused alike in both notations") {
  for (const Notation notation : {Notation::kYaml, Notation::kJson}) {
    CHECK(outcome("", notation) == "E_SYNTAX t:1:1");
    CHECK(outcome(" \n\t\n", notation) == "E_SYNTAX t:1:1");
    CHECK(outcome("\xef\xbb\xbf{}", notation) == "E_SYNTAX t:1:1");
    CHECK(outcome("[1,\n \"\xff\"]", notation) == "E_SYNTAX t:2:3");
    CHECK(outcome("[\"\xc0\x80\"]", notation) == "E_SYNTAX t:1:3");      // overlong
    CHECK(outcome("[\"\xed\xa0\x80\"]", notation) == "E_SYNTAX t:1:3");  // surrogate
    CHECK(outcome("[\"\xf4\x90\x80\x80\"]", notation) == "E_SYNTAX t:1:3");
    CHECK(outcome(std::string_view("[1]\0", 4), notation) == "E_SYNTAX t:1:4");
    CHECK(outcome("[\"a\x01\"]", notation) == "E_SYNTAX t:1:4");
    CHECK(outcome("[\"a\x7f\"]", notation) == "E_SYNTAX t:1:4");
    CHECK(outcome("[\"\xc3\xa4\xf0\x9f\x99\x82\"]", notation) == "[\"\xc3\xa4\xf0\x9f\x99\x82\"]");
    CHECK(outcome(std::string((16 << 20) + 1, ' '), notation) == "E_SYNTAX t:1:1");
    CHECK(outcome("[" + std::string((16 << 20) - 2, ' ') + "]", notation) == "[]");
  }
  CHECK(outcome("# nothing\n") == "E_SYNTAX t:1:1");
  CHECK(outcome("---\n") == "E_SYNTAX t:1:1");
}

TEST_CASE("nesting beyond 64 levels is refused in both notations, however deep it goes") {
  const std::string deep = repeated("[", 64) + repeated("]", 64);
  CHECK(outcome(deep) == deep);
  CHECK(outcome(deep, Notation::kJson) == deep);
  CHECK(outcome(repeated("[", 65) + repeated("]", 65)) == "E_SYNTAX t:1:65");
  CHECK(outcome(repeated("[", 65) + repeated("]", 65), Notation::kJson) == "E_SYNTAX t:1:65");
  CHECK(outcome(repeated("[", 1000000)) == "E_SYNTAX t:1:65");
  CHECK(outcome(repeated("[", 1000000), Notation::kJson) == "E_SYNTAX t:1:65");
  CHECK(outcome(repeated("{a: ", 1000000)) == "E_SYNTAX t:1:257");
  CHECK(outcome(repeated("- ", 1000000)) == "E_SYNTAX t:1:129");
  CHECK(outcome(repeated("? ", 1000000)) == "E_SYNTAX t:1:3");
  CHECK(outcome(repeated("[\n", 16 << 19)) == "E_SYNTAX t:65:1");
  std::string stairs;
  for (int i = 0; i < 2000; ++i) stairs += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  CHECK(outcome(stairs) == "E_SYNTAX t:65:65");
}

TEST_CASE("a parse error at an unquoted pattern says what to quote") {
  const std::string hint =
      "in YAML quote patterns that start with '*' or contain '{', '}', '?' or ',', and everything with '${'";
  for (const std::string text : {"- *.weight", "{match: **.{q,k}.weight}", "{bias?: x}", "{unit: ${a}}"}) {
    CAPTURE(text);
    CHECK(message(text).find(hint) != std::string::npos);
  }
  CHECK(outcome("a: b: c") == "E_SYNTAX t:1:5");
  CHECK(message("a: b: c").find(hint) == std::string::npos);
  CHECK(outcome("a: x\n\tb: 1") == "E_SYNTAX t:2:1");
}
