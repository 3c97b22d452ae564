// The cases of tests/data/shard_cases.json as a user meets them: written as a plan, read, and bound to what the source
// stores.

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "reshard/base/value.hpp"
#include "support/case_reader.hpp"
#include "unit/planner/binding_fixture.hpp"

using namespace reshard;
using namespace reshard::planner::test;
using layout::Index;
using reshard::planner::BoundPlan;
using reshard::planner::SourceCatalog;
using reshard::planner::SourceTensor;
using reshard::planner::StoredRun;

namespace {

Value::Member member(std::string key, Value value) {
  return {std::move(key), std::move(value), {}};
}

/// A side of a case without its cuts, which stand in the rule.
Value side_of(const Value& side) {
  Value::Object out;
  for (const Value::Member& entry : side.object())
    if (entry.key != "shard") out.push_back(entry);
  return out;
}

Value shard_of(const Value& side) {
  Value::Object out;
  if (const Value* shard = side.find("shard")) out.push_back(member("shard", *shard));
  return out;
}

std::string plan_text(const Value& source, const Value& target, Value::Array rules) {
  return canonical_json(Value::Object{member("reshard", 1), member("source", side_of(source)),
                                      member("target", side_of(target)), member("tensors", std::move(rules))});
}

BoundPlan bound_json(const std::string& text, const SourceCatalog& source) {
  return planner::bind(plan::read_plan(text, plan::Notation::kJson, "case.json"), source, no_numbers);
}

Index ranks_of(const Value& side) {
  return cases::side_mesh(side).size();
}

/// `expect` is one shape, or one per rank of `ranks`.
SourceTensor stored_as(std::string name, const Value& expect, const std::vector<Index>& ranks, const Shape& global) {
  const bool by_rank = !expect.array().empty() && expect.array().front().is_array();
  SourceTensor out{std::move(name), {}, nullptr};
  for (std::size_t i = 0; i < ranks.size(); ++i)
    out.stored.push_back(
        {ranks[i], ranks[i], cases::integers(by_rank ? expect.array()[i] : expect), Dtype::kU8, global});
  return out;
}

std::vector<Index> all_ranks(const Value& side) {
  std::vector<Index> out;
  for (Index rank = 0; rank < ranks_of(side); ++rank) out.push_back(rank);
  return out;
}

void check_stored(const layout::TensorLayout& layout, const Value& expect) {
  const bool by_rank = !expect.array().empty() && expect.array().front().is_array();
  std::size_t i = 0;
  for (Index rank = 0; rank < layout.ranks; ++rank)
    if (layout.is_present(rank))
      CHECK(layout.stored_shape(rank) == cases::integers(by_rank ? expect.array()[i++] : expect));
}

/// A manifest holds the final placement and the true shape, nothing else: they must say all of the layout.
void check_placement(const planner::LayoutPair& pair, const layout::Mesh& mesh) {
  const layout::TensorLayout again =
      layout::lay_out(pair.target.shape, {pair.target_placement.dims, pair.target.present}, mesh);
  CHECK(again.dims == pair.target.dims);
  for (const layout::DimCut& cut : pair.target_placement.dims) {
    CHECK_FALSE(cut.size);
    for (const layout::Level& level : cut.levels) CHECK(mesh.axis_size(level.axis) == level.axis_size);
  }
}

/// One tensor `w` from one side to the other. A refused case is run from a full source, which any plan can read.
void run_reshard(const Value& c) {
  const Value& source = *c.find("source");
  const Value& target = *c.find("target");
  const Value& expect = *c.find("expect");
  const Shape shape = cases::integers(*c.find("shape"));
  const std::string text = plan_text(
      source, target,
      {Value::Object{member("match", "w"), member("source", shard_of(source)), member("target", shard_of(target))}});
  const Value* stored = expect.find("source_stored");
  const SourceTensor w = stored ? stored_as("w", *stored, all_ranks(source), shape)
                                : SourceTensor{"w", {{0, ranks_of(source) - 1, shape, Dtype::kU8, shape}}, nullptr};
  const BoundPlan plan = bound_json(text, {ranks_of(source), {w}});
  if (expect.find("error")) return;
  REQUIRE(plan.layouts.size() == 1);
  CHECK(plan.layouts[0].source.shape == shape);
  check_stored(plan.layouts[0].target, *expect.find("target_stored"));
  check_placement(plan.layouts[0], cases::side_mesh(target));
}

/// `place` of a tensor of so many dims, from a full source, must cut like the `shard` that the case gives.
void run_placement(const Value& c) {
  const Value& axes = *c.find("axes");
  const Shape shape(static_cast<std::size_t>(c.find("rank")->integer()), 2 * 3 * 4 * 4);
  Value::Object full{member("axes", Value::Array{})};
  const std::string text = plan_text(std::move(full), Value::Object{member("axes", axes)},
                                     {Value::Object{member("match", "w"), member("place", *c.find("place"))}});
  const BoundPlan plan = bound_json(text, catalog(1, {everywhere("w", 1, shape)}));
  const Value& expect = *c.find("expect");
  if (expect.find("error")) return;
  const layout::Mesh mesh = cases::read_mesh(axes);
  const layout::TensorLayout said =
      layout::lay_out(shape, cases::read_cut(expect.find("shard"), shape.size(), mesh), mesh);
  CHECK(plan.layouts.at(0).target.dims == said.dims);
}

void run_model(const Value& c) {
  Value::Array rules;
  std::vector<SourceTensor> tensors;
  const Value::Array& expected = c.find("expect")->find("tensors")->array();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Value& given = c.find("tensors")->array()[i];
    Value::Object rule{member("match", *given.find("name"))};
    for (const char* key : {"view", "shard"})
      if (const Value* value = given.find(key)) rule.push_back(member(key, *value));
    if (const Value* owner = given.find("owner")) {
      Value::Object owners;
      for (const Value::Member& axis : owner->object())
        owners.push_back(member(
            axis.key, Value::Object{member("index", axis.value.array()[0]), member("count", axis.value.array()[1])}));
      rule.push_back(member("owner", std::move(owners)));
    }
    rules.emplace_back(std::move(rule));
    tensors.push_back(stored_as(given.find("name")->string(), *expected[i].find("source_stored"),
                                cases::integers(*expected[i].find("source_ranks")),
                                cases::integers(*given.find("shape"))));
  }
  const Value& target = *c.find("target");
  const BoundPlan plan = bound_json(plan_text(*c.find("source"), target, std::move(rules)),
                                    catalog(ranks_of(*c.find("source")), std::move(tensors)));
  CHECK(plan.tensors.size() == expected.size());
  for (const Value& expect : expected) {
    CAPTURE(expect.find("name")->string());
    const planner::LayoutPair& pair = plan.layouts[tensor(plan, expect.find("name")->string()).layout];
    std::vector<Index> present;
    for (Index rank = 0; rank < pair.target.ranks; ++rank)
      if (pair.target.is_present(rank)) present.push_back(rank);
    CHECK(present == cases::integers(*expect.find("target_ranks")));
    check_stored(pair.target, *expect.find("target_stored"));
    const std::string& view = pair.target_placement.view;
    check_placement(pair,
                    view.empty() ? cases::side_mesh(target) : cases::read_mesh(*target.find("views")->find(view)));
  }
}

/// A group from a full source; its sizes follow from the case's dims.
void run_group(const Value& c) {
  const Value& side = *c.find("side");
  SourceCatalog source;
  for (const Value::Member& entry : c.find("members")->object()) {
    Shape shape;
    const std::string& dims = entry.value.string();
    for (std::size_t begin = 0; begin < dims.size();) {
      const std::size_t end = std::min(dims.find(' ', begin), dims.size());
      const std::string token = dims.substr(begin, end - begin);
      const std::size_t slash = std::min(token.find('/'), token.size());
      const Index divisor = slash < token.size() ? std::stoll(token.substr(slash + 1)) : 1;
      const Value* sizes = c.find("stored") ? c.find("stored")->find(entry.key) : nullptr;
      const Value* size = c.find("dims")->find(token.substr(0, slash));
      shape.push_back(sizes ? sizes->array()[shape.size()].integer() : (size->integer() + divisor - 1) / divisor);
      begin = end + 1;
    }
    source.tensors.push_back({"g." + entry.key, {{0, 0, shape, Dtype::kU8, std::nullopt}}, nullptr});
  }
  Value::Object full{member("axes", Value::Array{})};
  Value::Object rule{member("match", "g"), member("members", *c.find("members")), member("shard", *side.find("shard"))};
  const std::string text = plan_text(std::move(full), side, {Value(std::move(rule))});
  const BoundPlan plan = bound_json(text, catalog(1, source.tensors));
  const Value& expect = *c.find("expect");
  if (expect.find("error")) return;
  for (const planner::BoundTensor& bound_tensor : plan.tensors) {
    const planner::LayoutPair& pair = plan.layouts[bound_tensor.layout];
    check_placement(pair, cases::side_mesh(side));
    for (const Value::Member& rank : expect.find("ranks")->object()) {
      const Value& shard = *rank.value.find(bound_tensor.target_name.substr(2));
      const Index number = std::stoll(rank.key);
      CHECK(pair.target.stored_shape(number) == cases::integers(*shard.find("stored")));
    }
  }
}

}  // namespace

TEST_CASE("every case that can be written as a plan is bound as the case file says") {
  using Runner = void (*)(const Value&);
  const std::map<std::string, Runner> runners = {
      {"reshard", run_reshard}, {"placement", run_placement}, {"model", run_model}, {"group", run_group}};
  std::map<std::string, int> ran;
  for (const Value& c : cases::load("shard_cases.json")) {
    const auto runner = runners.find(c.find("kind")->string());
    if (runner == runners.end()) continue;
    const std::string id = c.find("id")->string();
    CAPTURE(id);
    const std::set<std::string> errors = cases::expected_errors(*c.find("expect"));
    // What a source of several ranks stores is only known where the case has an outcome; a plan that names no such axis
    // or dim is refused whatever is stored.
    if (!errors.empty() && runner->first == "reshard" && !c.find("source")->find("axes")->array().empty() &&
        !cases::belongs_to_the_plan_reader(errors))
      continue;
    ++ran[runner->first];
    if (errors.empty()) {
      runner->second(c);
    } else {
      const std::string code = cases::code_of([&] { runner->second(c); });
      CAPTURE(code);
      CHECK(errors.contains(code));
    }
  }
  CHECK(ran == std::map<std::string, int>{{"reshard", 155}, {"placement", 12}, {"model", 20}, {"group", 14}});
}
