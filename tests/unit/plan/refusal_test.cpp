#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "unit/plan/support.hpp"

using namespace reshard;
using namespace reshard::plan;
using namespace reshard::test;

namespace {

/// JSON is read as YAML too, so one text serves both notations; they must refuse it in the same words at the same
/// places.
std::string both(const std::string& text) {
  const std::string json = refusals(text, Notation::kJson);
  CHECK(issues_of(text, Notation::kYaml) == issues_of(text, Notation::kJson));
  return json;
}

constexpr const char* kHead =
    "{\"reshard\": 1, \"source\": {\"axes\": [\"tp=2\", \"dp=2\"]}, \"target\": {\"axes\": [\"tp=4\", \"cp=2\"]},\n"
    "\"tensors\": [\n";

/// Refusals of one rule, which is all of line 3.
std::string rule(const std::string& text) {
  return both(kHead + text + "]}");
}

std::string rule_message(const std::string& text) {
  const auto issues = issues_of(kHead + text + "]}", Notation::kJson);
  return issues.empty() ? "read" : issues.front().message;
}

/// Refusals of the entry of dim 0, which begins at 3:27.
std::string entry(const std::string& text) {
  return rule(R"j({"match": "w", "shard": {"0": )j" + text + "}}");
}

struct Case {
  std::string text;
  std::string outcome;
};

}  // namespace

TEST_CASE("the top level is a map of known keys with a version") {
  CHECK(both("[]") == "E_SCHEMA p:1:1");
  CHECK(both("\n null") == "E_SCHEMA p:2:2");
  CHECK(both(" \n") == "E_SYNTAX p:1:1");
  for (const char* const text : {"# a comment\n", "---\n", "---\n...\n"}) CHECK(refusals(text) == "E_SYNTAX p:1:1");
  CHECK(refusals("~") == "E_SCHEMA p:1:1");
  CHECK(both(R"j({"target": {}, "tensors": []})j") == "E_SCHEMA p:1:1");
  CHECK(both(R"j({"reshard": 2, "target": {}, "tensors": []})j") == "E_SCHEMA p:1:13");
  CHECK(both(R"j({"reshard": "1", "target": {}, "tensors": []})j") == "E_SCHEMA p:1:13");
  CHECK(both(R"j({"reshard": 1.0, "target": {}, "tensors": []})j") == "E_SCHEMA p:1:13");
  CHECK(both(R"j({"reshard": 1, "target": {}})j") == "E_SCHEMA p:1:1");
  CHECK(both(R"j({"reshard": 1, "tensors": []})j") == "E_SCHEMA p:1:1");
  CHECK(both(R"j({"reshard": 1, "target": null, "tensors": null})j") == "E_SCHEMA p:1:16, E_SCHEMA p:1:32");
  CHECK(both(R"j({"reshard": 1, "target": {}, "tensors": {}})j") == "E_SCHEMA p:1:41");
  CHECK(both(R"j({"reshard": 1, "target": {}, "tensors": ["w"]})j") == "E_SCHEMA p:1:42");
  CHECK(both(R"j({"reshard": 1, "target": {}, "tensors": [], "unmatched": "ignore"})j") == "E_SCHEMA p:1:58");
  CHECK(both(R"j({"reshard": 1, "target": {}, "tensors": [], "fallback": "repeat"})j") == "E_SCHEMA p:1:57");
  CHECK(both(R"j({"reshard": 1, "target": {}, "tensors": [], "include": "x"})j") == "E_UNSUPPORTED p:1:45");
  CHECK(both(R"j({"reshard": 1, "target": {}, "tensors": [], "reshard": 1})j") == "E_DUP_KEY p:1:45");
  const auto issues = issues_of(R"j({"reshard": 1, "sorce": {}, "target": {}, "tensors": []})j", Notation::kJson);
  REQUIRE(issues.size() == 1);
  CHECK(to_line(issues[0]) ==
        "E_SCHEMA: p:1:16: unknown key 'sorce' (did you mean 'source'?); legal keys: reshard, source, target, tensors, "
        "unmatched, "
        "fallback, vars");
}

TEST_CASE("integers are integers and nothing else, in either notation") {
  for (const std::string text :
       {"\"4\"", "4.0", "4e0", "\"yes\"", "-1", "0", "null", "true", "[4]", "{}", "9223372036854775808"}) {
    CAPTURE(text);
    CHECK(entry("{\"axes\": \"tp\", \"unit\": " + text + "}") ==
          (text == "null" ? "E_SCHEMA p:3:46" : "E_SCHEMA p:3:54"));
  }
  for (const std::string text : {"04", "0x4"}) {
    CAPTURE(text);
    const std::string plan =
        std::string(kHead) + R"j({"match": "w", "shard": {"0": {"axes": "tp", "unit": )j" + text + "}}}]}";
    CHECK(refusals(plan, Notation::kJson).find("E_SYNTAX p:3:") == 0);
    CHECK(refusals(plan, Notation::kYaml) == "E_SYNTAX p:3:54");
  }
  const std::string block =
      "reshard: 1\ntarget: {axes: [tp=4]}\ntensors:\n  - match: w\n    shard:\n      0:\n        axes: tp\n        "
      "unit: ";
  for (const std::string text : {"\"4\"", "4.0", "4e0", "yes", "-1", "0"}) {
    CAPTURE(text);
    CHECK(refusals(block + text + "\n") == "E_SCHEMA p:8:15");
  }
  for (const std::string text : {"04", "0x4"}) {
    CAPTURE(text);
    CHECK(refusals(block + text + "\n") == "E_SYNTAX p:8:15");
  }
  CHECK(refusals(block + "\n") == "E_SCHEMA p:8:9");
  CHECK(refusals(block + "4\n") == "read");
  CHECK(rule_message(R"j({"match": "w", "shard": {"0": {"axes": "tp", "unit": 4.0}}})j") ==
        "tensors[0].shard.0.unit: found 4.0 (float), expected an integer of 1 or more");
}

TEST_CASE("rules refuse what they cannot mean") {
  const std::vector<Case> cases = {
      {R"j({"shard": {"0": "tp"}})j", "E_SCHEMA p:3:1"},
      {R"j({"match": ""})j", "E_SCHEMA p:3:11"},
      {R"j({"match": 3})j", "E_SCHEMA p:3:11"},
      {R"j({"match": "a{b"})j", "E_PATTERN p:3:11"},
      {R"j({"match": "re:("})j", "E_PATTERN p:3:11"},
      {R"j({"match": "*.w", "rename": "$2.w"})j", "E_PATTERN p:3:28"},
      {R"j({"match": "*.w", "rename": "$0.w"})j", "E_PATTERN p:3:28"},
      {R"j({"match": "w", "rename": ""})j", "E_SCHEMA p:3:26"},
      {R"j({"match": "w", "dtype": "float32"})j", "E_DTYPE p:3:25"},
      {R"j({"match": "w", "dtype": "i32"})j", "E_DTYPE p:3:25"},
      {R"j({"match": "w", "dtype": 32})j", "E_SCHEMA p:3:25"},
      {R"j({"match": "w", "optional": "yes"})j", "E_SCHEMA p:3:28"},
      {R"j({"match": "w", "drop": 1})j", "E_SCHEMA p:3:24"},
      {R"j({"match": "w", "fallback": "repeat"})j", "E_SCHEMA p:3:28"},
      {R"j({"match": "w", "view": "expert"})j", "E_SCHEMA p:3:24"},
      {R"j({"match": "w", "transpose": true})j", "E_UNSUPPORTED p:3:16"},
      {R"j({"match": "w", "shards": {"0": "tp"}})j", "E_SCHEMA p:3:16"},
      {R"j({"match": "w", "shard": null})j", "E_SCHEMA p:3:16"},
      {R"j({"match": "w", "shard": ["tp"]})j", "E_SCHEMA p:3:25"},
      {R"j({"match": "w", "source": {"rename": "x"}})j", "E_SCHEMA p:3:27"},
      {R"j({"match": "w", "target": "tp"})j", "E_SCHEMA p:3:26"},
      {R"j({"match": "w", "shard": {"0": "tp"}, "place": {"tp": "shard(0)"}})j", "E_SCHEMA p:3:47"},
      {R"j({"match": "w", "target": {"shard": {"0": "tp"}, "place": {"tp": "shard(0)"}}})j", "E_SCHEMA p:3:58"},
      {R"j({"match": "w", "projection": "both"})j", "E_SCHEMA p:3:30"},
      {R"j({"match": "w", "projection": "row", "members": {"a": "x"}})j", "E_SCHEMA p:3:48"},
      {R"j({"match": "w", "projection": "row", "place": {"tp": "shard(0)"}})j", "E_SCHEMA p:3:46"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(rule(c.text) == c.outcome);
  }
}

TEST_CASE("axes and dims are checked across a rule") {
  const std::vector<Case> cases = {
      {R"j({"match": "w", "shard": {"0": "tpp"}})j", "E_AXIS_UNKNOWN p:3:31"},
      {R"j({"match": "w", "shard": {"0": "TP"}})j", "E_AXIS_UNKNOWN p:3:31"},
      {R"j({"match": "w", "shard": {"0": ["tp", "gtp"]}})j", "E_AXIS_UNKNOWN p:3:38"},
      {R"j({"match": "w", "owner": {"pp": "0/2"}})j", "E_AXIS_UNKNOWN p:3:26"},
      {R"j({"match": "w", "place": {"pp": "replicate"}})j", "E_AXIS_UNKNOWN p:3:26"},
      {R"j({"match": "w", "shard": {"0": "tp", "1": "tp"}})j", "E_AXIS_REUSED p:3:42"},
      {R"j({"match": "w", "shard": {"0": ["tp", "tp"]}})j", "E_AXIS_REUSED p:3:31"},
      {R"j({"match": "w", "shard": {"0": "tp"}, "owner": {"tp": "0/4"}})j", "E_AXIS_REUSED p:3:54"},
      {R"j({"match": "w", "shard": {"rows": "tp"}})j", "E_DIM_RANGE p:3:26"},
      {R"j({"match": "w", "shard": {"01": "tp"}})j", "E_SCHEMA p:3:26"},
      {R"j({"match": "w", "shard": {"-0": "tp"}})j", "E_SCHEMA p:3:26"},
      {R"j({"match": "w", "shard": {"1.0": "tp"}})j", "E_SCHEMA p:3:26"},
      {R"j({"match": "w", "shard": {"": "tp"}})j", "E_SCHEMA p:3:26"},
      {R"j({"match": "w", "shard": {"99999999999999999999": "tp"}})j", "E_DIM_RANGE p:3:26"},
      {R"j({"match": "w", "shard": {"0": "tp", "0": "dp"}})j", "E_DUP_KEY p:3:37"},
      {R"j({"match": "w", "shard": {"ot": "tp"}, "members": {"a": "out in"}})j", "E_DIM_RANGE p:3:26"},
      {R"j({"match": "w", "place": {"tp": "shard(ot)"}, "members": {"a": "out in"}})j", "E_DIM_RANGE p:3:25"},
      {R"j({"match": "w", "shard": {"0": "partial"}})j", "E_PARTIAL p:3:31"},
      {R"j({"match": "w", "place": {"tp": "partial"}})j", "E_PARTIAL p:3:32"},
      {R"j({"match": "w", "place": {"tp": "Partial(sum)"}})j", "E_PARTIAL p:3:32"},
      {R"j({"match": "w", "place": {"tp": "_Partial(avg)"}})j", "E_PARTIAL p:3:32"},
      {R"j({"match": "w", "place": {"tp": "Shard(0)"}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "w", "place": {"tp": "shard"}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "w", "place": {"tp": "shard(0, even)"}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "w", "place": {"tp": "strided_shard(0)"}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "w", "place": {"tp": "strided_shard(0, 0)"}})j", "E_STRIDE p:3:32"},
      {R"j({"match": "w", "place": {"tp": 0}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "w", "place": ["tp"]})j", "E_SCHEMA p:3:25"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(rule(c.text) == c.outcome);
  }
  CHECK(rule_message(R"j({"match": "w", "shard": {"0": "tpp"}})j") ==
        "tensors[0].shard.0: no axis 'tpp' on either side; the nearest is 'tp'; axes: cp, dp, tp");
  CHECK(both(R"j({"reshard": 1, "target": {}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]})j") ==
        "E_AXIS_UNKNOWN p:1:72");
}

TEST_CASE("the cut of a dim refuses what it cannot mean") {
  const std::vector<Case> cases = {
      {"3", "E_SCHEMA p:3:31"},
      {"null", "E_SCHEMA p:3:26"},
      {"{}", "E_SCHEMA p:3:31"},
      {R"j({"unit": 4})j", "E_SCHEMA p:3:31"},
      {R"j({"size": 4, "unit": 4})j", "E_SCHEMA p:3:51"},
      {R"j({"axes": 3})j", "E_SCHEMA p:3:40"},
      {R"j({"axes": {"axis": "tp"}})j", "E_SCHEMA p:3:40"},
      {R"j({"axes": [3]})j", "E_SCHEMA p:3:41"},
      {R"j({"axes": [{"unit": 3}]})j", "E_SCHEMA p:3:41"},
      {R"j({"axes": "tp", "untis": 3})j", "E_SCHEMA p:3:46"},
      {R"j({"axes": "tp", "quantize": 3})j", "E_UNSUPPORTED p:3:46"},
      {R"j({"axes": "tp", "segments": 4})j", "E_SCHEMA p:3:58"},
      {R"j({"axes": "tp", "segments": []})j", "E_SEGMENT_SUM p:3:58"},
      {R"j({"axes": "tp", "segments": [4, 0]})j", "E_SEGMENT_SUM p:3:62"},
      {R"j({"axes": "tp", "segments": [4, -4]})j", "E_SEGMENT_SUM p:3:62"},
      {R"j({"axes": "tp", "segments": [4, "4"]})j", "E_SCHEMA p:3:62"},
      {R"j({"axes": "tp", "segments": [{"unit": 4}]})j", "E_SCHEMA p:3:59"},
      {R"j({"axes": "tp", "segments": [{"size": 4, "stride": 4}]})j", "E_SCHEMA p:3:71"},
      {R"j({"axes": "tp", "segments": [{"size": 4, "fallback": "no"}]})j", "E_SCHEMA p:3:83"},
      {R"j({"axes": "tp", "segments": [9223372036854775807, 1]})j", "E_OVERFLOW p:3:58"},
      {R"j({"axes": "tp", "split": [9223372036854775807, 1]})j", "E_OVERFLOW p:3:55"},
      {R"j({"axes": "tp", "segments": [4, 4], "size": 9})j", "E_SEGMENT_SUM p:3:58"},
      {R"j({"axes": "tp", "segments": [4, 4], "stride": 2})j", "E_SCHEMA p:3:76"},
      {R"j({"axes": "tp", "stride": 0})j", "E_STRIDE p:3:56"},
      {R"j({"axes": "tp", "split": "evenly"})j", "E_SCHEMA p:3:55"},
      {R"j({"axes": "tp", "split": 3})j", "E_SCHEMA p:3:55"},
      {R"j({"axes": "cp", "split": [1, 2, 3]})j", "E_OWNER p:3:55"},
      {R"j({"axes": "cp", "split": [0, 0]})j", "E_SCHEMA p:3:55"},
      {R"j({"axes": "cp", "split": [1, -1]})j", "E_SCHEMA p:3:59"},
      {R"j({"axes": "tp", "fallback": "copy"})j", "E_SCHEMA p:3:58"},
      {R"j({"axes": "tp", "pad_to": 0})j", "E_PAD p:3:56"},
      {R"j({"axes": "tp", "pad_rows": -2})j", "E_PAD p:3:58"},
      {R"j({"axes": "tp", "pad_total": 0})j", "E_PAD p:3:59"},
      {R"j({"axes": "tp", "pad_to": 2, "pad_rows": 2})j", "E_SCHEMA p:3:71"},
      {R"j({"axes": "tp", "pad_to": 2, "unit": 2})j", "E_SCHEMA p:3:56"},
      {R"j({"axes": "tp", "pad_to": 2, "segments": [2]})j", "E_SCHEMA p:3:56"},
      {R"j({"axes": "tp", "pad_rows": 2, "stride": 2})j", "E_SCHEMA p:3:58"},
      {R"j({"axes": "tp", "pad_to": 2, "split": "chunk"})j", "E_SCHEMA p:3:56"},
      {R"j({"axes": "tp", "pad_to": 2, "split": "even"})j", "read"},
      {R"j({"axes": ["tp", "cp"], "pad_to": 2, "unit": 2})j", "read"},
      {R"j({"axes": "tp", "pad_total": 2, "unit": 2})j", "E_SCHEMA p:3:59"},
      {R"j({"axes": ["tp", "cp"], "pad_total": 2, "pad_to": 2})j", "read"},
      {R"j({"axes": "tp", "fill": "one"})j", "E_SCHEMA p:3:54"},
      {R"j({"axes": "tp", "size": -1})j", "E_SCHEMA p:3:54"},
      {R"j({"axes": [{"axis": "tp", "unit": 2}], "unit": 2})j", "E_SCHEMA p:3:77"},
      {R"j({"axes": ["tp", {"axis": "cp", "pad_total": 2}]})j", "E_SCHEMA p:3:75"},
      {R"j({"axes": ["tp", {"axis": "cp", "size": 2}]})j", "E_SCHEMA p:3:62"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(entry(c.text) == c.outcome);
  }
}

TEST_CASE("a length that the plan tells and no checkpoint could cut so is refused without one") {
  // The target has tp=4, cp=2.
  const std::vector<Case> cases = {
      {R"j({"axes": "cp", "segments": [4, 3]})j", "E_INDIVISIBLE p:3:1"},
      {R"j({"axes": "cp", "segments": [4, 6]})j", "read"},
      {R"j({"axes": "cp", "size": 7})j", "E_INDIVISIBLE p:3:1"},
      {R"j({"axes": "cp", "size": 1, "split": "balanced"})j", "E_EMPTY_SHARD p:3:1"},
      {R"j({"axes": "cp", "size": 7, "fallback": "replicate"})j", "read"},
      {R"j({"axes": "cp", "size": 6, "layout": "zigzag"})j", "E_SEQ_LAYOUT p:3:1"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": [0, 6]}, "padding": "forbid"})j",
       "E_SEQ_LAYOUT p:3:1"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": "t"}, "size": 6})j", "read"},
      {R"j({"axes": "cp", "size": 7, "pad_rows": 2})j", "E_PAD p:3:1"},
      {R"j({"axes": "tp", "size": 6, "unit": 2, "fallback": "repeat"})j", "E_REPEAT p:3:1"},
      {R"j({"axes": "cp", "size": 6, "stride": 2})j", "E_STRIDE p:3:1"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(rule(R"j({"match": "w", "target": {"shard": {"0": )j" + c.text + "}}}") == c.outcome);
  }
  CHECK(rule(R"j({"match": "w", "shard": {"0": {"axes": "tp", "size": 7}}, "drop": true})j") == "read");
  CHECK(rule_message(R"j({"match": "w", "target": {"shard": {"0": {"axes": "tp", "segments": [8, 6]}}}})j") ==
        "tensors[0]: target: dim 0: axis 'tp' of size 4 cannot cut the 6 elements of segment 1: 6 is not a multiple of "
        "4; legal sizes of 'tp': 1, 2");
}

TEST_CASE("numbers that go beyond 63 bits over the axes of a side are refused without a checkpoint") {
  // The target has tp=4, cp=2.
  const std::vector<Case> cases = {
      {R"j({"axes": "cp", "size": 8, "pad_to": 4611686018427387904})j", "E_OVERFLOW p:3:1"},
      {R"j({"axes": "cp", "pad_to": 4611686018427387904})j", "E_OVERFLOW p:3:1"},
      {R"j({"axes": "cp", "pad_total": 4611686018427387904})j", "E_OVERFLOW p:3:1"},
      {R"j({"axes": "cp", "stride": 4611686018427387904})j", "E_OVERFLOW p:3:1"},
      {R"j({"axes": "cp", "layout": "striped", "block": 4611686018427387904})j", "E_OVERFLOW p:3:1"},
      {R"j({"axes": "cp", "pad_to": 2305843009213693952, "size": 9223372036854775807})j", "E_OVERFLOW p:3:1"},
      {R"j({"axes": "cp", "pad_rows": 4611686018427387904, "size": 4611686018427387904})j", "E_OVERFLOW p:3:1"},
      {R"j({"axes": "cp", "pad_rows": 4611686018427387904})j", "read"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(rule(R"j({"match": "w", "target": {"shard": {"0": )j" + c.text + "}}}") == c.outcome);
  }
}

TEST_CASE("sequence layouts refuse what they cannot mean") {
  const std::vector<Case> cases = {
      {R"j({"axes": "cp", "layout": "ring"})j", "E_SCHEMA p:3:56"},
      {R"j({"axes": "cp", "layout": "zigzag", "unit": 2})j", "E_SCHEMA p:3:56"},
      {R"j({"axes": "cp", "layout": "zigzag", "split": "chunk"})j", "E_SCHEMA p:3:56"},
      {R"j({"axes": "cp", "layout": "contiguous", "unit": 2})j", "read"},
      {R"j({"axes": "cp", "layout": "zigzag", "pad_to": 2})j", "E_SCHEMA p:3:76"},
      {R"j({"axes": ["cp", "tp"], "layout": "zigzag", "pad_to": 2})j", "read"},
      {R"j({"axes": "cp", "layout": "striped", "block": 0})j", "E_SCHEMA p:3:76"},
      {R"j({"axes": "cp", "layout": "zigzag", "block": 2})j", "E_SCHEMA p:3:75"},
      {R"j({"axes": "cp", "block": 2})j", "E_SCHEMA p:3:55"},
      {R"j({"axes": "cp", "padding": "forbid"})j", "E_SCHEMA p:3:57"},
      {R"j({"axes": "cp", "layout": "zigzag", "pad_value": 1})j", "E_SCHEMA p:3:79"},
      {R"j({"axes": "cp", "layout": "striped", "packed": {"cu_seqlens": "t"}})j", "E_SCHEMA p:3:77"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": "t"}, "padding": "never"})j",
       "E_SCHEMA p:3:108"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": "t"}, "pad_value": "0"})j", "E_SCHEMA p:3:110"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": "t"}, "pad_value": 9007199254740993})j",
       "E_DTYPE p:3:110"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": "t"})j", "E_SCHEMA p:3:76"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens_padded": [0, 4]}})j", "E_SCHEMA p:3:76"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": 4}})j", "E_SCHEMA p:3:91"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": []}})j", "E_SEQ_LAYOUT p:3:91"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": [0]}})j", "E_SEQ_LAYOUT p:3:91"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": [1, 4]}})j", "E_SEQ_LAYOUT p:3:91"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": [0, 5, 4]}})j", "E_SEQ_LAYOUT p:3:98"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": [0, 5.0]}})j", "E_SCHEMA p:3:95"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": [0, 5], "cu_seqlens_padded": [0, 4]}})j",
       "E_SEQ_LAYOUT p:3:120"},
      {R"j({"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": [0, 5], "cu_seqlens_padded": [0, 5, 6]}})j",
       "E_SEQ_LAYOUT p:3:120"},
      {R"j({"axes": "cp", "layout": "zigzag", "size": 6, "packed": {"cu_seqlens": [0, 5]}})j", "E_SEQ_LAYOUT p:3:87"},
      {R"j({"axes": ["tp", {"axis": "cp", "layout": "zigzag", "packed": {"cu_seqlens": "t"}}]})j", "E_SCHEMA p:3:92"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(entry(c.text) == c.outcome);
  }
}

TEST_CASE("groups and owners refuse what they cannot mean") {
  const std::vector<Case> cases = {
      {R"j({"match": "w", "members": ["a"]})j", "E_SCHEMA p:3:27"},
      {R"j({"match": "w", "members": {}})j", "E_SCHEMA p:3:27"},
      {R"j({"match": "w", "members": {"a": ["out"]}})j", "E_SCHEMA p:3:33"},
      {R"j({"match": "w", "members": {"a": "out/0"}})j", "E_SCHEMA p:3:33"},
      {R"j({"match": "w", "members": {"a": "out/-1"}})j", "E_SCHEMA p:3:33"},
      {R"j({"match": "w", "members": {"a": "out/x"}})j", "E_SCHEMA p:3:33"},
      {R"j({"match": "w", "members": {"a": "1"}})j", "E_SCHEMA p:3:33"},
      {R"j({"match": "w", "members": {"a": "out out/2"}})j", "E_SCHEMA p:3:33"},
      {R"j({"match": "w", "members": {"a": "out", "a?": "out"}})j", "E_SCHEMA p:3:46"},
      {R"j({"match": "w", "members": {"?": "out"}})j", "E_SCHEMA p:3:33"},
      {R"j({"match": "w", "members": {"a": "out"}, "target": {"members": null}})j", "E_SCHEMA p:3:1"},
      {R"j({"match": "w", "members": {"a": "out"}, "target": {"members": {"b": "out"}}})j", "E_SCHEMA p:3:1"},
      {R"j({"match": "*", "owner": {"dp": 3}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "*", "owner": {"dp": "3"}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "*", "owner": {"dp": "x/4"}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "*", "owner": {"dp": "$1x/4"}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "*", "owner": {"dp": "$1/0"}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "*", "owner": {"dp": "$1/04"}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "*", "owner": {"dp": "$2/4"}})j", "E_PATTERN p:3:32"},
      {R"j({"match": "*", "owner": {"dp": "4/4"}})j", "E_OWNER p:3:32"},
      {R"j({"match": "*", "owner": {"dp": "-1/4"}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "*", "owner": {"dp": "$1/3"}})j", "E_OWNER p:3:32"},
      {R"j({"match": "*", "owner": {"dp": {"index": "$1", "count": 3}}})j", "E_OWNER p:3:57"},
      {R"j({"match": "*", "owner": {"dp": {"count": 4}}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "*", "owner": {"dp": {"index": 1}}})j", "E_SCHEMA p:3:32"},
      {R"j({"match": "*", "owner": {"dp": {"index": "1", "count": 4}}})j", "E_SCHEMA p:3:42"},
      {R"j({"match": "*", "owner": {"dp": {"index": [0, 4], "count": 4}}})j", "E_OWNER p:3:42"},
      {R"j({"match": "*", "owner": {"dp": {"index": [], "count": 4}}})j", "E_SCHEMA p:3:42"},
      {R"j({"match": "*", "owner": {"dp": {"index": "$1", "split": [1, 2, 3]}}})j", "E_OWNER p:3:57"},
      {R"j({"match": "*", "owner": {"dp": {"index": "$1", "split": [1, 2], "count": 4}}})j", "E_OWNER p:3:57"},
      {R"j({"match": "*", "owner": {"dp": {"index": 0, "count": 4, "numbering": "local"}}})j", "E_SCHEMA p:3:70"},
      {R"j({"match": "*", "owner": {"dp": {"index": "$1", "count": 4, "numbering": "mine"}}})j", "E_SCHEMA p:3:73"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(rule(c.text) == c.outcome);
  }
}

TEST_CASE("all faults of a plan are reported, in the order of the text") {
  CHECK(
      both("{\"reshard\": 1,\n"
           " \"source\": {\"axes\": [\"tp=x\"], \"path\": 3},\n"
           " \"target\": {\"axes\": [\"tp=2\"], \"kind\": 1},\n"
           " \"tensors\": [{\"match\": \"w\", \"shard\": {\"0\": {\"axes\": \"pt\", \"unit\": 0}}},\n"
           "             {\"match\": \"*\", \"rename\": \"$2\", \"stack\": 1}]}") ==
      "E_MESH_SIZE p:2:22, E_SCHEMA p:2:39, E_SCHEMA p:3:31, E_AXIS_UNKNOWN p:4:53, E_SCHEMA p:4:67, E_PATTERN p:5:39, "
      "E_UNSUPPORTED p:5:45");
}

TEST_CASE("a fault that both sides of a rule meet is reported once, one of a side says which") {
  CHECK(entry(R"j({"axes": "zz", "unit": 0})j") == "E_AXIS_UNKNOWN p:3:40, E_SCHEMA p:3:54");
  CHECK(rule_message(R"j({"match": "w", "shard": {"0": {"axes": "tp", "split": [1, 2]}}})j") ==
        "tensors[0].shard.0.split: 2 shares, axis 'tp' has 4 coordinates in the target; expected one share per "
        "coordinate");
}

TEST_CASE("a huge plan of faults stays a report that can be read") {
  std::string text = "{\"reshard\": 1, \"target\": {}, \"tensors\": [";
  for (int i = 0; i < 12000; ++i) text += i == 0 ? "3" : ",3";
  const auto issues = issues_of(text + "]}", Notation::kJson);
  REQUIRE(issues.size() == 10000);
  CHECK(issues.back().message.find("; 2000 more faults are not listed") != std::string::npos);
}

TEST_CASE("long texts are quoted by their beginning") {
  const std::string key(1 << 20, 'k');
  const std::string text = "{\"reshard\": 1, \"target\": {}, \"tensors\": [{\"match\": \"w\", \"" + key +
                           "\": 1, \"owner\": {\"" + key + "\": \"" + key + "\"}}]}";
  const std::vector<Issue> issues = issues_of(text, Notation::kJson);
  REQUIRE(issues.size() == 3);
  CHECK(issues[0].where == "p:1:57");
  CHECK(issues[0].message.find("unknown key '" + std::string(100, 'k') + "...'; legal keys: match") !=
        std::string::npos);
  for (const Issue& issue : issues) CHECK(issue.message.size() < 5000);
}

TEST_CASE("drop says that nothing reaches the target") {
  const std::vector<Case> cases = {
      {R"j({"match": "x", "drop": true})j", "read"},
      {R"j({"match": "x", "drop": true, "optional": true, "shard": {"0": "tp"}})j", "read"},
      // The source has tp=2, the target tp=4.
      {R"j({"match": "x", "drop": true, "shard": {"0": {"axes": "tp", "split": [2, 1]}}})j", "read"},
      {R"j({"match": "x", "drop": true, "owner": {"tp": "0/2"}})j", "read"},
      {R"j({"match": "x", "drop": true, "owner": {"tp": "0/3"}})j", "E_OWNER p:3:46"},
      {R"j({"match": "x", "drop": false, "rename": "y", "dtype": "f32", "target": {}})j", "read"},
      {R"j({"match": "x", "drop": true, "rename": "y"})j", "E_SCHEMA p:3:40"},
      {R"j({"match": "x", "drop": true, "dtype": "f32"})j", "E_SCHEMA p:3:39"},
      {R"j({"match": "x", "drop": true, "target": {"shard": {"0": "tp"}}})j", "E_SCHEMA p:3:40"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(rule(c.text) == c.outcome);
  }
}

namespace {

/// A target of two axes and a view whose files have this name; `files` begins at 2:33.
std::string with_files(const std::string& files, const std::string& rules) {
  return both(R"j({"reshard": 1, "target": {"axes": ["pp=2", "tp=2"], "views": {"e": ["ep=4"]},)j"
              "\n                        \"files\": \"" +
              files + R"j("}, "tensors": [)j" + rules + "]}");
}

}  // namespace

TEST_CASE("files names every axis that divides") {
  const std::string by_tp = R"j({"match": "x", "shard": {"0": "tp"}})j";
  const std::string by_stage = R"j({"match": "l.*", "owner": {"pp": "$1/4"}})j";
  const std::string refused = "E_SCHEMA p:2:34";
  CHECK(with_files("{rank}.h5", by_tp + "," + by_stage) == "read");
  CHECK(with_files("{tp}.h5", by_tp) == "read");
  CHECK(with_files("{tp}.h5", by_tp + "," + by_stage) == refused);
  CHECK(with_files("{pp}.h5", by_tp) == refused);
  CHECK(with_files("all.h5", by_tp + "," + by_stage) == refused + ", " + refused);
  CHECK(with_files("all.h5", R"j({"match": "x"})j") == "read");
  CHECK(with_files("journal.{rank}", by_tp) == refused);
  CHECK(with_files("journal-{rank}", by_tp) == "read");
  CHECK(with_files("{tp}.h5", R"j({"match": "first", "owner": {"pp": "0/4"}})j") == refused);
  CHECK(with_files("{tp}.h5", R"j({"match": "x", "view": "e", "shard": {"0": "ep"}})j") == refused);
  CHECK(with_files("{ep}.h5", R"j({"match": "x", "view": "e", "shard": {"0": "ep"}})j") == "read");
  CHECK(with_files("{pp}{tp}.h5", R"j({"match": "x", "view": "e", "shard": {"0": "ep"}})j") == "read");
  // Tied copies on every stage, rules that may match nothing, cuts that may fall back: not by the plan alone.
  CHECK(with_files("{tp}.h5", R"j({"match": "tied", "owner": {"pp": {"index": [0, 3], "count": 4}}})j") == "read");
  CHECK(with_files("{pp}.h5", R"j({"match": "x", "shard": {"0": "tp"}, "optional": true})j") == "read");
  CHECK(with_files("{pp}.h5", R"j({"match": "x", "shard": {"0": "tp"}, "fallback": "replicate"})j") == "read");
  CHECK(with_files("{pp}.h5", R"j({"match": "x", "shard": {"0": {"axes": "tp", "fallback": "repeat"}}})j") == "read");
  CHECK(with_files("{pp}.h5", R"j({"match": "x", "shard": {"0": "tp"}, "drop": true})j") == "read");
}

TEST_CASE("files that do not tell ranks apart are named with the rule and the axis") {
  const auto issues =
      issues_of(R"j({"reshard": 1, "source": {"axes": ["pp=2", "tp=2"], "files": "mp_{tp}.h5"}, "target": {},
                                    "tensors": [{"match": "x"}, {"match": "l.*", "owner": {"pp": "$1/4"}}]})j",
                Notation::kJson);
  REQUIRE(issues.size() == 1);
  CHECK(issues[0].message ==
        "source.files: puts ranks 0 and 2 both into mp_0.h5, but tensors[1] divides by axis 'pp', on which they have "
        "different coordinates; name the axis in it, as {pp}, or {rank}");
  const auto run_together = issues_of(
      R"j({"reshard": 1, "target": {"axes": ["dp=12", "tp=12"], "files": "x{tp}{dp}.h5"},
           "tensors": [{"match": "x", "shard": {"0": ["dp", "tp"]}}]})j",
      Notation::kJson);
  REQUIRE(!run_together.empty());
  CHECK(run_together[0].message.find("give them a width, as {dp:03}") != std::string::npos);
}
