#include "reshard/plan/pattern.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "reshard/base/error.hpp"

using namespace reshard;
using namespace reshard::plan;

namespace {

using Captures = std::optional<std::vector<std::string>>;

Captures match(std::string_view pattern, std::string_view name) {
  return NamePattern(pattern).match(name);
}

std::string refusal(std::string_view pattern) {
  try {
    const NamePattern compiled(pattern);
  } catch (const Error& error) {
    return std::string(code_name(error.issues().front().code)) + " " + error.issues().front().message;
  }
  return "compiled";
}

Captures none() {
  return std::nullopt;
}
Captures captures(std::vector<std::string> list) {
  return list;
}

}  // namespace

TEST_CASE("a star stands for one or more characters of a component") {
  CHECK(match("layers.*.weight", "layers.12.weight") == captures({"12"}));
  CHECK(match("layers.*.weight", "layers..weight") == none());
  CHECK(match("layers.*.weight", "layers.1.2.weight") == none());
  CHECK(match("layers.*.weight", "layers.1/2.weight") == none());
  CHECK(match("layers/*/vars/0", "layers/dense/vars/0") == captures({"dense"}));
  CHECK(match("w*", "w") == none());
  CHECK(match("w*", "w1") == captures({"1"}));
}

TEST_CASE("two stars stand for any characters, also none") {
  CHECK(match("**norm.weight", "norm.weight") == captures({""}));
  CHECK(match("**norm.weight", "model.layers.0/input_layernorm.weight") == captures({"model.layers.0/input_layer"}));
  CHECK(match("**", "") == captures({""}));
  CHECK(match("**.a", "a") == none());
}

TEST_CASE("a pattern is for the whole name") {
  CHECK(match("norm", "norm.weight") == none());
  CHECK(match("norm", "a.norm") == none());
  CHECK(match("re:a|b", "ab") == none());
  CHECK(match("re:a|ab", "ab") == captures({}));
  CHECK(match("norm", "norm") == captures({}));
}

TEST_CASE("braces choose, captures are numbered by where they open, one not taken is empty") {
  CHECK(match("**.{q,k,v}_proj.weight", "l.k_proj.weight") == captures({"l", "k"}));
  CHECK(match("{embed,head*}.w", "head7.w") == captures({"head7", "7"}));
  CHECK(match("{embed,head*}.w", "embed.w") == captures({"embed", ""}));
  CHECK(match("{a,}b", "b") == captures({""}));
  CHECK(NamePattern("**.{q,k*}.*").captures() == 4);
}

TEST_CASE("the leftmost wildcard takes the longest") {
  CHECK(match("**.*", "a.b.c") == captures({"a.b", "c"}));
  CHECK(match("**{.w,w}", "a.w") == captures({"a.", "w"}));
}

TEST_CASE("characters of other languages' patterns are plain text") {
  CHECK(match("a.b+c[0](x)^$|?\\", "a.b+c[0](x)^$|?\\") == captures({}));
  CHECK(match("a.b", "aXb") == none());
}

TEST_CASE("names that are UTF-8 match by characters") {
  CHECK(match("re:gr[öü]ße\\.w", "größe.w") == captures({}));
  CHECK(match("re:gr.ße\\.w", "größe.w") == captures({}));
  CHECK(match("re:gr(.)(.)e\\.w", "größe.w") == captures({"ö", "ß"}));
  CHECK(match("re:e\\x{301}", "e\xcc\x81") == captures({}));
  CHECK(match("re:\\pL+", "ö層") == captures({}));
  CHECK(match("re:..", "ö") == none());
  CHECK(match("gr*ße.{w,ö}", "größe.w") == captures({"ö", "w"}));
}

TEST_CASE("names that are no UTF-8 match by bytes, where the pattern means any") {
  CHECK(match("re:gr..s", "gr\xf6\xdfs") == captures({}));
  CHECK(match("re:\xc3\xb6.", "\xc3\xb6\xff") == captures({}));
  CHECK(match("re:e\\x{301}.*", "e\xcc\x81\xff") == none());
}

TEST_CASE("a pattern that is no UTF-8 matches by bytes") {
  CHECK(match("gr\xf6*", "gr\xf6\xdf") == captures({"\xdf"}));
  CHECK(match("re:(.)(.)|\xff", "\xc3\xb6") == captures({"\xc3", "\xb6"}));
}

TEST_CASE("line breaks and invalid UTF-8 match") {
  CHECK(match("**.w", "a\nb.w") == captures({"a\nb"}));
  CHECK(match("*.w", "\xff\xfe.w") == captures({"\xff\xfe"}));
  CHECK(match("\xc3\xa4*", "\xc3\xa4x") == captures({"x"}));
  CHECK(match("re:a.b", "a\nb") == captures({}));
  CHECK(match("re:.", "\xff") == captures({}));
  CHECK(match("*", std::string_view("a\0b", 3)) == captures({std::string("a\0b", 3)}));
}

TEST_CASE("a regular expression has the captures of its groups") {
  CHECK(match(R"(re:layers\.(\d+)\.(?:q|k)_(proj))", "layers.31.k_proj") == captures({"31", "proj"}));
  CHECK(match("re:(a)|(b)", "b") == captures({"", "b"}));
}

TEST_CASE("matching takes linear time") {
  const std::string name(200000, 'a');
  const auto start = std::chrono::steady_clock::now();
  CHECK(match("re:(a*)*(a*)*(a*)*b", name) == none());
  CHECK(match("**a**a**a**a**b", name) == none());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("a bad pattern is refused with the offending part") {
  CHECK(refusal("") == "E_PATTERN the pattern is empty; '**' matches every name");
  CHECK(refusal("a.{q,k") == "E_PATTERN pattern 'a.{q,k', character 3: '{' is never closed");
  CHECK(refusal("a}") ==
        "E_PATTERN pattern 'a}', character 2: '}' without '{'; a name with a brace is matched by 're:'");
  CHECK(refusal("{a,{b}}").find("character 4: braces do not nest") != std::string::npos);
  CHECK(refusal("a***").find("'***' is no wildcard") != std::string::npos);
  CHECK(refusal("re:(").find("E_PATTERN") == 0);
  CHECK(refusal("re:a(?=b)").find("E_PATTERN") == 0);
  CHECK(refusal("re:(a)\\1").find("E_PATTERN") == 0);
  CHECK(refusal("re:") == "E_PATTERN 're:' without an expression");
  CHECK(refusal(std::string(20000, 'a')).find("at most 16384") != std::string::npos);
  CHECK(refusal("re:((a{100}){100}){100}").find("E_PATTERN") == 0);
}

TEST_CASE("captures are put into a name, and a dollar sign without a number is one") {
  CHECK(expand("blk.$1.ffn_$2.w", {"7", "down"}) == "blk.7.ffn_down.w");
  CHECK(expand("$2$1$1", {"a", "b"}) == "baa");
  CHECK(expand("a$ $x$", {}) == "a$ $x$");
  CHECK(expand("$12", std::vector<std::string>(12, "z")) == "z");
  CHECK_THROWS_AS(expand("$2", {"a"}), Error);
  CHECK_THROWS_AS(expand("$0", {"a"}), Error);
  CHECK_THROWS_AS(expand("$99999999999999999999", {"a"}), Error);
  CHECK(capture_references("$1.$x.$23") == std::vector<std::size_t>{1, 23});
}
