#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "reshard/base/json.hpp"
#include "unit/plan/support.hpp"

using namespace reshard;
using namespace reshard::plan;
using namespace reshard::test;

namespace {

Value cases() {
  std::ifstream file(RESHARD_TEST_DATA "/shard_cases.json");
  std::stringstream text;
  text << file.rdbuf();
  return parse_json(text.str(), "shard_cases.json");
}

/// A side of a case is a side of a plan with `shard` beside the mesh.
Value mesh_of(const Value& side) {
  Value::Object out;
  for (const Value::Member& member : side.object())
    if (member.key != "shard") out.push_back(member);
  return out;
}

Value words_of(const Value& side) {
  Value::Object out;
  if (const Value* shard = side.find("shard")) out.push_back({"shard", *shard, {}});
  return out;
}

/// The plan of a case of kind `reshard`.
std::string plan_of(const Value& source, const Value& target) {
  Value::Object rule = {{"match", "w", {}}, {"source", words_of(source), {}}, {"target", words_of(target), {}}};
  return canonical_json(Value::Object{{"reshard", 1, {}},
                                      {"source", mesh_of(source), {}},
                                      {"target", mesh_of(target), {}},
                                      {"tensors", Value::Array{rule}, {}}});
}

/// The plan of a case of kind `placement`.
std::string placement_plan_of(const Value& axes, const Value& place) {
  Value::Object rule = {{"match", "w", {}}, {"place", place, {}}};
  return canonical_json(Value::Object{
      {"reshard", 1, {}}, {"target", Value::Object{{"axes", axes, {}}}, {}}, {"tensors", Value::Array{rule}, {}}});
}

/// Codes that a plan alone shows; the others need a tensor's length.
bool is_of_the_plan(const std::string& code) {
  static const std::set<std::string> codes = {"E_SCHEMA",       "E_MESH_SIZE",   "E_AXIS_DUP", "E_RANKS",
                                              "E_AXIS_UNKNOWN", "E_AXIS_REUSED", "E_PARTIAL"};
  return codes.count(code) > 0;
}

/// The first code of a refusal, or "read".
std::string first_code(const std::string& plan) {
  const std::string all = refusals(plan, Notation::kJson);
  return all.substr(0, all.find(' '));
}

}  // namespace

TEST_CASE("the plans of all weight-layout cases are read or refused with the code of the case") {
  int read = 0;
  int refused = 0;
  const Value file = cases();
  for (const Value& one : file.find("cases")->array()) {
    const std::string kind = one.find("kind")->string();
    if (kind != "reshard" && kind != "placement") continue;
    const std::string plan = kind == "reshard" ? plan_of(*one.find("source"), *one.find("target"))
                                               : placement_plan_of(*one.find("axes"), *one.find("place"));
    const Value* error = one.find("expect")->find("error");
    const Value* also = one.find("expect")->find("or");
    const std::string id = one.find("id")->string();
    const std::string code = first_code(plan);
    CAPTURE(id);
    CAPTURE(plan);
    if (error != nullptr && is_of_the_plan(error->string())) {
      CHECK((code == error->string() || (also != nullptr && code == also->array()[0].string())));
      ++refused;
    } else if (error == nullptr || code != error->string()) {
      CHECK(code == "read");
      ++read;
    }
  }
  CHECK(read == 186);
  CHECK(refused == 10);
}
