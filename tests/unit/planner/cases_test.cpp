// The cases of tests/data/shard_cases.json that need two sides or readers: transfers, covers, choices of copies, order,
// models.

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "reshard/base/checked.hpp"
#include "reshard/layout/owner.hpp"
#include "reshard/layout/tensor_layout.hpp"
#include "support/case_reader.hpp"
#include "support/moves.hpp"

using namespace reshard;
using namespace reshard::planner;
using layout::Index;
using layout::Mesh;
using layout::TensorLayout;

namespace {

struct Sides {
  TensorLayout source;
  TensorLayout target;
};

Sides read_sides(const Value& c) {
  const Shape shape = cases::integers(*c.find("shape"));
  const Value& source = *c.find("source");
  const Value& target = *c.find("target");
  const Mesh source_mesh = cases::side_mesh(source);
  const Mesh target_mesh = cases::side_mesh(target);
  layout::TensorCut cut =
      cases::read_cut(source.find("shard"), shape.size(), source_mesh, cases::axis_names(target_mesh));
  if (const Value* present = c.find("present")) {
    cut.present.assign(static_cast<std::size_t>(source_mesh.size()), false);
    for (const Index rank : cases::integers(*present)) cut.present[static_cast<std::size_t>(rank)] = true;
  }
  return {layout::lay_out(shape, cut, source_mesh),
          layout::lay_out(
              shape, cases::read_cut(target.find("shard"), shape.size(), target_mesh, cases::axis_names(source_mesh)),
              target_mesh)};
}

// `expect` is one shape, or one per present rank.
void check_stored(const TensorLayout& layout, const Value& expect) {
  std::size_t i = 0;
  const bool by_rank = !expect.array().empty() && expect.array().front().is_array();
  for (Index rank = 0; rank < layout.ranks; ++rank)
    if (layout.is_present(rank))
      CHECK(layout.stored_shape(rank) == cases::integers(by_rank ? expect.array()[i++] : expect));
}

void check_moves(const Sides& sides, const Value& expect) {
  const std::vector<Transfer> moves = cases::plan(sides.source, sides.target);
  std::vector<Transfer> expected;
  for (const Value& transfer : expect.array()) expected.push_back(cases::read_transfer(transfer));
  CHECK(cases::joined(cases::from_lowest_holder(moves, sides.source, sides.target), sides.target) == expected);
}

void run_reshard(const Value& c) {
  const Sides sides = read_sides(c);
  const Value& expect = *c.find("expect");
  if (const Value* transfers = expect.find("transfers"))
    check_moves(sides, *transfers);
  else
    cases::plan(sides.source, sides.target);
  if (expect.find("error")) return;
  check_stored(sides.source, *expect.find("source_stored"));
  check_stored(sides.target, *expect.find("target_stored"));
  for (Index rank = 0; rank < sides.target.ranks; ++rank) {
    Shape held;
    for (std::size_t d = 0; d < sides.target.dims.size(); ++d)
      held.push_back(cases::shard_of(sides.target, rank, d).true_length());
    const Value* padding = expect.find("padding") ? expect.find("padding")->find(std::to_string(rank)) : nullptr;
    CHECK(checked_product(sides.target.stored_shape(rank)) - checked_product(held) ==
          (padding ? padding->integer() : 0));
  }
  if (const Value* replicas = expect.find("replicas")) {
    std::map<std::vector<std::int32_t>, std::vector<Index>> groups;
    for (Index rank = 0; rank < sides.source.ranks; ++rank) {
      std::vector<std::int32_t> parts;
      for (const layout::DimLayout& dim : sides.source.dims) parts.push_back(dim.part_of(rank));
      if (sides.source.is_present(rank)) groups[parts].push_back(rank);
    }
    std::set<std::vector<Index>> found;
    std::set<std::vector<Index>> expected;
    for (const auto& [parts, ranks] : groups) found.insert(ranks);
    for (const Value& ranks : replicas->array()) expected.insert(cases::integers(ranks));
    CHECK(found == expected);
  }
}

void run_cover(const Value& c) {
  std::vector<Box> boxes;
  for (const Value& written : c.find("boxes")->array()) {
    const std::vector<Index> offset = cases::integers(written.array()[0]);
    const std::vector<Index> extent = cases::integers(written.array()[1]);
    Box& box = boxes.emplace_back();
    for (std::size_t d = 0; d < offset.size(); ++d) box.push_back({offset[d], offset[d] + extent[d]});
  }
  const Value& expect = *c.find("expect");
  Cover expected{expect.find("missing")->integer(), expect.find("twice")->integer(), {}, {}};
  if (const Value* first = expect.find("first_missing")) expected.first_missing = cases::integers(*first);
  if (const Value* first = expect.find("first_twice")) expected.first_twice = cases::integers(*first);
  CHECK(cover(cases::integers(*c.find("shape")), boxes) == expected);
}

void run_greedy(const Value& c) {
  std::map<std::string, Piece> by_id;
  for (const Value& piece : c.find("pieces")->array())
    by_id[piece.find("id")->string()] = {piece.find("bytes")->integer(), cases::integers(*piece.find("holders"))};
  std::vector<Piece> pieces;
  for (const auto& [id, piece] : by_id) pieces.push_back(piece);
  const std::vector<Index> readers = assign_readers(pieces);
  const Value& expect = *c.find("expect");
  std::map<Index, Index> load;
  std::size_t i = 0;
  for (const auto& [id, piece] : by_id) {
    CHECK(readers[i] == expect.find("readers")->find(id)->integer());
    load[readers[i++]] += piece.bytes;
  }
  for (const auto& [rank, bytes, position] : expect.find("load")->object())
    CHECK(load[std::stoll(rank)] == bytes.integer());
}

void run_schedule(const Value& c) {
  std::vector<std::pair<std::string, Transfer>> found;
  for (const Value& tensor : c.find("tensors")->array()) {
    const Sides sides = read_sides(tensor);
    for (const Transfer& move :
         cases::from_lowest_holder(cases::plan(sides.source, sides.target), sides.source, sides.target))
      found.emplace_back(tensor.find("name")->string(), move);
  }
  std::vector<std::pair<std::string, Transfer>> expected;
  for (const Value& entry : c.find("expect")->find("by_tensor")->array())
    expected.emplace_back(entry.array()[1].string(), cases::read_transfer(entry, 2));
  CHECK(found == expected);
}

// A side's mesh for a tensor's view, and the ranks that `owner` gives the tensor.
TensorLayout model_side(const Value& side, const Value& tensor, const std::set<std::string>& axes) {
  const Value* view = tensor.find("view");
  const Value* views = side.find("views");
  const Value* view_axes = view && views ? views->find(view->string()) : nullptr;
  const Mesh mesh = cases::read_mesh(view_axes ? *view_axes : *side.find("axes"));
  const Shape shape = cases::integers(*tensor.find("shape"));
  layout::TensorCut cut = cases::read_cut(tensor.find("shard"), shape.size(), mesh, axes);
  cut.present.assign(static_cast<std::size_t>(mesh.size()), true);
  if (const Value* owner = tensor.find("owner"))
    for (const auto& [axis, number, position] : owner->object()) {
      const layout::Ownership ownership(axis, mesh.axis_size(axis).value_or(1), number.array()[1].integer());
      const Index home = ownership.locate(number.array()[0].integer()).coordinate;
      for (Index rank = 0; rank < mesh.size(); ++rank)
        if (mesh.coordinate(rank, axis) != home) cut.present[static_cast<std::size_t>(rank)] = false;
    }
  return layout::lay_out(shape, cut, mesh);
}

void run_model(const Value& c) {
  std::set<std::string> axes;
  for (const char* name : {"source", "target"}) {
    const Value& side = *c.find(name);
    axes.merge(cases::axis_names(cases::side_mesh(side)));
    if (const Value* views = side.find("views"))
      for (const auto& [view, list, position] : views->object()) axes.merge(cases::axis_names(cases::read_mesh(list)));
  }
  const Value::Array& tensors = c.find("tensors")->array();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Value& expect = c.find("expect")->find("tensors")->array()[i];
    CAPTURE(expect.find("name")->string());
    const Sides sides{model_side(*c.find("source"), tensors[i], axes), model_side(*c.find("target"), tensors[i], axes)};
    for (const auto& [side, ranks] :
         {std::pair(&sides.source, "source_ranks"), std::pair(&sides.target, "target_ranks")}) {
      std::vector<Index> present;
      for (Index rank = 0; rank < side->ranks; ++rank)
        if (side->is_present(rank)) present.push_back(rank);
      CHECK(present == cases::integers(*expect.find(ranks)));
    }
    check_stored(sides.source, *expect.find("source_stored"));
    check_stored(sides.target, *expect.find("target_stored"));
    check_moves(sides, *expect.find("transfers"));
  }
}

using Runner = void (*)(const Value&);

}  // namespace

TEST_CASE("every case about two sides comes out as the case file says") {
  const std::map<std::string, Runner> runners = {{"reshard", run_reshard},
                                                 {"cover", run_cover},
                                                 {"replica", run_greedy},
                                                 {"schedule", run_schedule},
                                                 {"model", run_model}};
  cases::Tally tally;
  for (const Value& c : cases::load("shard_cases.json")) {
    const std::string& kind = c.find("kind")->string();
    const auto runner = runners.find(kind);
    if (kind == "batch" || kind == "gtp_file")
      ++tally.not_applicable[kind]["how Megatron-LM batches and names files, no rule of this tool"];
    if (runner == runners.end()) continue;
    const std::string id = c.find("id")->string();
    CAPTURE(id);
    if (kind == "replica" && c.find("rule")->string() != "greedy") {
      ++tally.not_applicable[kind]["how Megatron-LM chooses"];
      continue;
    }
    const std::set<std::string> errors = cases::expected_errors(*c.find("expect"));
    if (cases::belongs_to_the_plan_reader(errors)) {
      ++tally.not_applicable[kind]["refused before there is a layout: run as a plan"];
      continue;
    }
    ++tally.ran[kind];
    const bool counts_only = kind == "cover";  // a cover counts; refusing is its caller's
    if (errors.empty() || counts_only) {
      runner->second(c);
    } else {
      const std::string code = cases::code_of([&] { runner->second(c); });
      CAPTURE(code);
      CHECK(errors.contains(code));
    }
  }
  CHECK(tally.ran ==
        std::map<std::string, int>{{"reshard", 180}, {"cover", 6}, {"replica", 2}, {"schedule", 3}, {"model", 20}});
  CHECK(tally.not_applicable ==
        std::map<std::string, std::map<std::string, int>>{
            {"reshard", {{"refused before there is a layout: run as a plan", 6}}},
            {"replica", {{"how Megatron-LM chooses", 8}}},
            {"batch", {{"how Megatron-LM batches and names files, no rule of this tool", 10}}},
            {"gtp_file", {{"how Megatron-LM batches and names files, no rule of this tool", 6}}}});
}
