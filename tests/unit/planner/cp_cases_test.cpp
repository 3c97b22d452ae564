// The conversions of tests/data/cp_cases.json: contiguous, zigzag and striped sequences, dense and packed.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <numeric>
#include <set>
#include <string>

#include "reshard/layout/sequence.hpp"
#include "reshard/layout/tensor_layout.hpp"
#include "reshard/plan/plan.hpp"
#include "support/case_reader.hpp"
#include "support/moves.hpp"

using namespace reshard;
using namespace reshard::planner;
using layout::Index;
using layout::Mesh;
using layout::TensorLayout;

namespace {

struct Sequence {
  Mesh mesh;
  layout::TensorCut cut;
};

std::optional<layout::PackedSequences> read_packed(const Value& c) {
  if (!c.find("cu_seqlens")) return std::nullopt;
  layout::PackedSequences out;
  out.cu_seqlens = cases::integers(*c.find("cu_seqlens"));
  if (const Value* padded = c.find("cu_seqlens_padded")) out.cu_seqlens_padded = cases::integers(*padded);
  return out;
}

Sequence read_side(const Value& c, const char* name) {
  const Value& side = *c.find(name);
  Sequence out{Mesh({{"cp", side.find("cp")->integer()}, {"tp", side.find("tp")->integer()}}), {}};
  layout::Level cp;
  cp.axis = "cp";
  cp.axis_size = side.find("cp")->integer();
  cp.packed = read_packed(c);
  const std::string& layout = side.find("layout")->string();
  if (layout == "zigzag") cp.layout = layout::SequenceLayout::kZigzag;
  if (layout == "striped" || layout == "interleave") cp.layout = layout::SequenceLayout::kStriped;
  if (layout == "chunk") cp.split = layout::Split::kChunk;
  if (const Value* block = side.find("block")) cp.block = block->integer();
  if (const Value* padding = c.find("padding"))
    if (padding->string() == "forbid") cp.packed_padding = layout::PackedPadding::kForbid;
  layout::Level tp;
  tp.axis = "tp";
  tp.axis_size = side.find("tp")->integer();
  layout::DimCut dim;
  // A contiguous stream that both sides store padded to one length: what is packed into it does not matter.
  if (const Value* total = c.find("pad_total_to")) {
    dim.pad_total = total->integer() / cp.axis_size;
    cp.packed.reset();
  }
  dim.levels = {cp, tp};
  out.cut.dims = {dim};
  return out;
}

Index total_length(const Value& c) {
  if (const Value* length = c.find("seq_len")) return length->integer();
  if (const Value* total = c.find("total_tokens")) return total->integer();
  const Value* padded = c.find("cu_seqlens_padded");
  return (padded ? padded : c.find("cu_seqlens"))->array().back().integer();
}

std::vector<Index> tokens(const layout::DimShard& shard) {
  std::vector<Index> out(static_cast<std::size_t>(shard.stored_length), -1);
  for (const layout::Run& run : shard.runs)
    for (Index i = 0; i < run.length; ++i) out[static_cast<std::size_t>(run.stored + i)] = run.global + i;
  return out;
}

void check_tokens(const TensorLayout& layout, const Value& expect) {
  for (Index rank = 0; rank < layout.ranks; ++rank)
    CHECK(tokens(cases::shard_of(layout, rank, 0)) == cases::integers(expect.array()[static_cast<std::size_t>(rank)]));
}

void run_convert(const Value& c) {
  const Sequence source = read_side(c, "source");
  const Sequence target = read_side(c, "target");
  const Shape shape = {total_length(c)};
  if (const Value* counts = c.find("source_counts")) {
    std::vector<Shape> stored;
    for (const Index count : cases::integers(*counts)) stored.push_back({count});
    layout::infer_shape(source.cut, source.mesh, stored, shape);
  }
  const TensorLayout from = layout::lay_out(shape, source.cut, source.mesh);
  const TensorLayout to = layout::lay_out(shape, target.cut, target.mesh);
  const Value& expect = *c.find("expect");
  if (expect.find("error")) return;
  check_tokens(from, *expect.find("source_ranks"));
  check_tokens(to, *expect.find("target_ranks"));

  std::vector<std::vector<Index>> copies;
  for (const Transfer& move : cases::joined(cases::plan(from, to), to, true))
    copies.push_back({move.target_rank, move.target_box[0].begin, move.source_rank, move.source_box[0].begin,
                      move.target_box[0].end - move.target_box[0].begin});
  std::vector<std::vector<Index>> fills;
  for (Index rank = 0; rank < to.ranks; ++rank)
    for (const layout::Pad& pad : cases::shard_of(to, rank, 0).pads) {
      CHECK(pad.temporary != (c.find("pad_total_to") != nullptr));
      fills.push_back({rank, pad.stored, pad.length});
    }
  std::vector<std::vector<Index>> expected_copies;
  std::vector<std::vector<Index>> expected_fills;
  for (const Value& copy : expect.find("copies")->array()) expected_copies.push_back(cases::integers(copy));
  for (const Value& fill : expect.find("fills")->array()) expected_fills.push_back(cases::integers(fill));
  CHECK(copies == expected_copies);
  CHECK(fills == expected_fills);

  const layout::Level& cp = target.cut.dims[0].levels[0];
  if (cp.packed && cp.layout == layout::SequenceLayout::kZigzag && cp.axis_size > 1) {
    std::vector<Index> offsets = {0};
    for (const Index length : layout::padded_lengths(*cp.packed, cp.axis_size, target.cut.dims[0].levels[1].axis_size))
      offsets.push_back(offsets.back() + length);
    CHECK(offsets == cases::integers(*expect.find("cu_seqlens_padded")));
  }
}

/// A side's cut as a plan has it.
Value shard_text(const Value& c, const char* name) {
  const auto member = [](std::string key, Value value) { return Value::Member{std::move(key), std::move(value), {}}; };
  const Value& side = *c.find(name);
  Value::Object dim{member("axes", Value::Array{Value("cp"), Value("tp")}), member("layout", *side.find("layout"))};
  if (const Value* cu_seqlens = c.find("cu_seqlens")) {
    Value::Object packed{member("cu_seqlens", *cu_seqlens)};
    if (const Value* padded = c.find("cu_seqlens_padded")) packed.push_back(member("cu_seqlens_padded", *padded));
    dim.push_back(member("packed", std::move(packed)));
  }
  return Value::Object{member("shard", Value::Object{member("0", std::move(dim))})};
}

/// Layout names and numbers that only a plan's text can have wrong.
void read_as_plan(const Value& c) {
  const auto axes = [&](const char* name) {
    return fmt::format(R"({{"axes": ["cp={}", "tp={}"]}})", c.find(name)->find("cp")->integer(),
                       c.find(name)->find("tp")->integer());
  };
  plan::read_plan(
      fmt::format(R"({{"reshard": 1, "source": {}, "target": {}, "tensors": [{{"match": "h", "source": {}, )"
                  R"("target": {}}}]}})",
                  axes("source"), axes("target"), canonical_json(shard_text(c, "source")),
                  canonical_json(shard_text(c, "target"))),
      plan::Notation::kJson, "case.json");
}

bool is_text_fault(const Value& c) {
  for (const char* side : {"source", "target"})
    if (c.find(side)->find("layout")->string() == "spiral") return true;
  for (const char* key : {"cu_seqlens", "cu_seqlens_padded"})
    if (const Value* list = c.find(key))
      for (const Value& entry : list->array())
        if (!entry.is_integer()) return true;
  return false;
}

// Why a conversion is not for this test; empty where it is.
std::string not_applicable(const Value& c) {
  for (const char* name : {"source", "target"}) {
    const Value& side = *c.find(name);
    const std::string& layout = side.find("layout")->string();
    if (layout == "indices") return "plans do not list indices";
    if (layout == "zigzag_uneven") return "zigzag takes equal chunks only";
    // Interleaved blocks of a length that they divide are striped.
    if (layout == "interleave" &&
        c.find("seq_len")->integer() % (side.find("cp")->integer() * side.find("block")->integer()) != 0)
      return "striped takes whole rounds of blocks only";
  }
  if (c.find("strip_padding")) return "physical padding keeps its place";
  return {};
}

std::map<std::string, std::set<std::string>> tool_codes() {
  return {{"E_BAD_LAYOUT", {"E_SCHEMA"}},
          {"E_BAD_WORLD", {"E_MESH_SIZE", "E_SCHEMA"}},
          {"E_CU_SHAPE", {"E_SEQ_LAYOUT", "E_SCHEMA"}},
          {"E_CU_DTYPE", {"E_SEQ_LAYOUT", "E_SCHEMA", "E_DTYPE", "E_OVERFLOW"}},
          {"E_PADDED_SHAPE", {"E_SEQ_LAYOUT"}},
          {"E_CU_START", {"E_SEQ_LAYOUT"}},
          {"E_CU_DECREASING", {"E_SEQ_LAYOUT"}},
          {"E_PADDED_TOO_SHORT", {"E_SEQ_LAYOUT"}},
          {"E_TOTAL_MISMATCH", {"E_SEQ_LAYOUT"}},
          {"E_EMPTY", {"E_SEQ_LAYOUT"}},
          {"E_SEQ_DIV", {"E_SEQ_LAYOUT", "E_INDIVISIBLE"}},
          {"E_TOTAL_DIV", {"E_SEQ_LAYOUT", "E_INDIVISIBLE"}},
          {"E_SEQ_NOT_ALIGNED", {"E_SEQ_LAYOUT"}},
          {"E_CU_OVERFLOW", {"E_OVERFLOW", "E_SEQ_LAYOUT"}},
          {"E_LOCAL_COUNT", {"E_SHAPE"}},
          // Limits of Megatron-LM, not of this tool.
          {"E_ODD_TP", {"accepted"}},
          {"E_GROUP_CHANGE", {"accepted"}}};
}

}  // namespace

TEST_CASE("every sequence conversion comes out as the case file says") {
  cases::Tally tally;
  const auto codes = tool_codes();
  for (const Value& c : cases::load("cp_cases.json")) {
    const std::string& kind = c.find("kind")->string();
    const std::string id = c.find("id")->string();
    CAPTURE(id);
    const std::string reason = kind != "convert" ? "Megatron-LM's own plan objects" : not_applicable(c);
    if (!reason.empty()) {
      ++tally.not_applicable[kind][reason];
      continue;
    }
    ++tally.ran[kind];
    if (const Value* error = c.find("expect")->find("error")) {
      const std::string code = cases::code_of([&] { is_text_fault(c) ? read_as_plan(c) : run_convert(c); });
      CAPTURE(code);
      CHECK(codes.at(error->string()).contains(code));
    } else {
      run_convert(c);
    }
  }
  CHECK(tally.ran == std::map<std::string, int>{{"convert", 53}});
  CHECK(tally.not_applicable.at("convert") ==
        std::map<std::string, int>{{"plans do not list indices", 4},
                                   {"zigzag takes equal chunks only", 1},
                                   {"striped takes whole rounds of blocks only", 2},
                                   {"physical padding keeps its place", 2}});
  tally.not_applicable.erase("convert");
  const std::string plan_objects = "Megatron-LM's own plan objects";
  CHECK(tally.not_applicable == std::map<std::string, std::map<std::string, int>>{{"segments", {{plan_objects, 13}}},
                                                                                  {"a2a_plan", {{plan_objects, 8}}},
                                                                                  {"thd_plan", {{plan_objects, 3}}},
                                                                                  {"group_map", {{plan_objects, 3}}},
                                                                                  {"paged_kv", {{plan_objects, 3}}},
                                                                                  {"manager", {{plan_objects, 3}}}});
}
