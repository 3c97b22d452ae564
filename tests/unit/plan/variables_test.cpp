#include "reshard/plan/variables.hpp"

#include <doctest/doctest.h>

#include <string>

#include "unit/plan/support.hpp"

using namespace reshard;
using namespace reshard::plan;
using namespace reshard::test;

namespace {

const Variables kVariables = {{"n", 32}, {"d", 128}, {"z", 0}, {"_big2", 9223372036854775807}};

/// The number, or the message.
std::string value_of(std::string_view text) {
  try {
    return std::to_string(evaluate(text, kVariables));
  } catch (const Error& error) {
    return std::string(code_name(error.issues().front().code)) + " " + error.issues().front().message;
  }
}

}  // namespace

TEST_CASE("expressions over integers and names are exact") {
  CHECK(value_of("7") == "7");
  CHECK(value_of("n*d") == "4096");
  CHECK(value_of(" 2 + 3 * ( n - 30 ) ") == "8");
  CHECK(value_of("n/8/2") == "2");
  CHECK(value_of("10-3-2") == "5");
  CHECK(value_of("--n") == "32");
  CHECK(value_of("-n*-2") == "64");
  CHECK(value_of("-7/7") == "-1");
  CHECK(value_of("0/5") == "0");
  CHECK(value_of("_big2") == "9223372036854775807");
}

TEST_CASE("what an expression cannot say is refused with its numbers") {
  CHECK(value_of("n/5") == "E_SCHEMA ${n/5}: 32 / 5 leaves a remainder of 2");
  CHECK(value_of("n/z") == "E_SCHEMA ${n/z}: 32 / 0");
  CHECK(value_of("_big2+1") == "E_SCHEMA ${_big2+1}: 9223372036854775807 + 1 does not fit 63 bits");
  CHECK(value_of("_big2*2").find("E_SCHEMA") == 0);
  CHECK(value_of("(-_big2-1)/-1").find("E_SCHEMA") == 0);
  CHECK(value_of("nn") == "E_SCHEMA ${nn}: no variable 'nn' (did you mean 'n'?); vars: _big2, d, n, z");
  CHECK(value_of("") == "E_SCHEMA ${}: ends where a number, a name or '(' is expected");
  for (const std::string text :
       {"1 2", "1+", "(1", "1)", "n%2", "1.5", "n n", "+1", "9223372036854775808", "2**3", "a.b"}) {
    CAPTURE(text);
    CHECK(value_of(text).find("E_SCHEMA") == 0);
  }
}

TEST_CASE("an expression nested deep or signed long neither crashes nor takes long") {
  CHECK(value_of(std::string(1000000, '(')).find("nested deeper than 64 levels") != std::string::npos);
  CHECK(value_of(std::string(1000000, '-') + "1") == "1");
}

TEST_CASE("variables stand in numbers, inside strings and in keys") {
  const ParallelPlan plan = read_yaml(
      "reshard: 1\n"
      "vars: {n: 4, d: 8, dim: 1}\n"
      "source: {axes: []}\n"
      "target: {axes: [\"tp=${n}\"]}\n"
      "tensors:\n"
      "  - {match: w, shard: {\"${dim}\": {axes: tp, unit: \"${d*2}\", segments: [\"${n*d*2}\", 64]}}}\n");
  CHECK(plan.target.mesh.axes() == std::vector<layout::Axis>{{"tp", 4}});
  REQUIRE(plan.rules[0].target.shard.size() == 1);
  CHECK(plan.rules[0].target.shard[0].dim == "1");
  CHECK(plan.rules[0].target.shard[0].cut.levels[0].unit == 16);
  CHECK(plan.rules[0].target.shard[0].cut.levels[0].segments ==
        std::vector<layout::Segment>{{64, {}, {}}, {64, {}, {}}});
}

TEST_CASE("the command line overrides variables and only those the plan has") {
  const std::string text = "{reshard: 1, vars: {n: 4}, target: {axes: [\"tp=${n}\"]}, tensors: []}";
  PlanOptions options;
  options.variables = {{"n", 8}};
  CHECK(read_yaml(text, options).target.mesh.size() == 8);
  options.variables = {{"m", 8}};
  const auto issues = issues_of(text, Notation::kYaml, options);
  REQUIRE(issues.size() == 1);
  CHECK(to_line(issues[0]) == "E_SCHEMA: --set: the plan has no variable 'm' (did you mean 'n'?); vars: n");
}

TEST_CASE("faults of variables are placed and do not cause others") {
  const std::string head = "reshard: 1\nvars: {nq: 32, nkv: 5, z: 0}\ntarget: {axes: [tp=2]}\ntensors:\n  - ";
  CHECK(refusals(head + "{match: w, shard: {0: {axes: tp, unit: \"${nq/nkv*2}\"}}}") == "E_SCHEMA p:5:44");
  CHECK(refusals(head + "{match: w, shard: {0: {axes: tp, unit: \"${nq/z}\"}}}") == "E_SCHEMA p:5:44");
  CHECK(refusals(head + "{match: w, shard: {0: {axes: tp, unit: \"${nope}\"}}}") == "E_SCHEMA p:5:44");
  CHECK(refusals(head + "{match: w, shard: {0: {axes: tp, unit: \"${nq\"}}}") == "E_SCHEMA p:5:44");
  CHECK(refusals(head + "{match: w, shard: {\"${nope}\": tp}}") == "E_SCHEMA p:5:24");
  CHECK(refusals(head + "{match: w, shard: {\"1\": tp, \"${nq/32}\": tp}}") ==
        "E_DUP_KEY p:5:33, E_AXIS_REUSED p:5:45");
  CHECK(refusals("{reshard: 1, vars: {n: 4.0, \"a-b\": 1, s: \"4\"}, target: {axes: [\"tp=${n}\"]}, tensors: []}") ==
        "E_SCHEMA p:1:24, E_SCHEMA p:1:36, E_SCHEMA p:1:42");
  CHECK(refusals("{reshard: 1, vars: [n], target: {}, tensors: []}") == "E_SCHEMA p:1:20");
}
