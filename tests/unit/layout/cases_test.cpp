// The cases of tests/data/shard_cases.json that ask about one side: meshes, cuts, inference, placements, groups, units,
// owners.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>

#include "reshard/base/checked.hpp"
#include "reshard/layout/group.hpp"
#include "reshard/layout/legal_sizes.hpp"
#include "reshard/layout/owner.hpp"
#include "reshard/layout/tensor_layout.hpp"
#include "support/case_reader.hpp"

using namespace reshard;
using namespace reshard::layout;

namespace {

constexpr const char* kPlanReader = "refused before there is a layout: run as a plan by the planner's tests";

// [[begin, end], ...]
std::vector<std::pair<Index, Index>> intervals(const Value& list) {
  std::vector<std::pair<Index, Index>> out;
  for (const Value& pair : list.array()) out.emplace_back(pair.array()[0].integer(), pair.array()[1].integer());
  return out;
}

std::vector<std::pair<Index, Index>> intervals(const DimShard& shard) {
  std::vector<std::pair<Index, Index>> out;
  for (const Run& run : shard.runs) {
    // The cases join what continues in the tensor across padding too; in these, padding is at the tail.
    if (!shard.pads.empty()) CHECK(run.stored < shard.pads.front().stored);
    out.emplace_back(run.global, run.global + run.length);
  }
  return out;
}

const DimShard& part(const TensorLayout& layout, Index rank, std::size_t dim) {
  const DimLayout& d = layout.dims[dim];
  return d.shard_of(rank);
}

// One shape, or one per rank.
Shape stored_of(const Value& stored, Index rank, bool by_rank) {
  return cases::integers(by_rank ? stored.array()[static_cast<std::size_t>(rank)] : stored);
}

// The axes that stand for an order string (fastest first) place ranks as the string says: one step along an axis passes
// as many ranks as the axes before it have coordinates.
void run_mesh_order(const Value& c) {
  const Mesh mesh = cases::read_mesh(*c.find("expect")->find("axes"));
  std::string order = c.find("order")->string();
  Index step = 1;
  for (char& letter : order)
    if (letter == '-') letter = ' ';
  std::istringstream names(order);
  for (std::string name; names >> name;) {
    CAPTURE(name);
    const Value* given = c.find("sizes")->find(name);
    const Index size = given ? given->integer() : 1;
    CHECK(mesh.axis_size(name) == size);
    for (Index rank = 0; rank < mesh.size(); ++rank) CHECK(mesh.coordinate(rank, name) == rank / step % size);
    step *= size;
  }
  CHECK(mesh.size() == step);
}

void run_mesh(const Value& c) {
  if (c.find("order")) return run_mesh_order(c);
  const Value& expect = *c.find("expect");
  const Mesh mesh = cases::read_mesh(*c.find("axes"), c.find("ranks"));
  for (const auto& [rank, coordinates, position] : expect.find("coordinates")->object())
    for (const auto& [axis, coordinate, at] : coordinates.object())
      CHECK(mesh.coordinate(std::stoll(rank), axis) == coordinate.integer());
  if (const Value* groups = expect.find("groups"))
    for (const auto& [axis, lists, position] : groups->object())
      for (const Value& list : lists.array()) {
        const std::vector<Index> ranks = cases::integers(list);
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          CHECK(mesh.coordinate(ranks[i], axis) == static_cast<Index>(i));
          for (const Axis& other : mesh.axes())
            if (other.name != axis)
              CHECK(mesh.coordinate(ranks[i], other.name) == mesh.coordinate(ranks[0], other.name));
        }
      }
}

void run_layout(const Value& c) {
  const Value& side = *c.find("side");
  const Shape shape = cases::integers(*c.find("shape"));
  const Mesh mesh = cases::side_mesh(side);
  const TensorLayout layout = lay_out(shape, cases::read_cut(side.find("shard"), shape.size(), mesh), mesh);
  const Value& expect = *c.find("expect");
  const Value& stored = *expect.find("stored");
  const bool by_rank = !stored.array().empty() && stored.array().front().is_array();
  for (Index rank = 0; rank < mesh.size(); ++rank) {
    CHECK(layout.stored_shape(rank) == stored_of(stored, rank, by_rank));
    const Value* dims = expect.find("intervals")->find(std::to_string(rank));
    for (std::size_t d = 0; d < shape.size(); ++d)
      CHECK(intervals(part(layout, rank, d)) == intervals(dims->array()[d]));
  }
}

void run_infer(const Value& c) {
  const Value& side = *c.find("side");
  const Mesh mesh = cases::side_mesh(side);
  std::vector<Shape> stored;
  for (const Value& shape : c.find("stored")->array()) stored.push_back(cases::integers(shape));
  const Value* recorded = c.find("recorded");
  const Shape shape = infer_shape(cases::read_cut(side.find("shard"), stored.front().size(), mesh), mesh, stored,
                                  recorded ? std::optional(cases::integers(*recorded)) : std::nullopt);
  CHECK(shape == cases::integers(*c.find("expect")->find("shape")));
}

// What the axes of one dim say as levels in mesh order with strides must cut like the axes that the case names, major
// first.
void run_placement(const Value& c) {
  const Mesh mesh = cases::read_mesh(*c.find("axes"));
  const auto rank = static_cast<Index>(c.find("rank")->integer());
  std::map<Index, DimCut> said;
  for (const Axis& axis : mesh.axes()) {
    const Value* place = c.find("place")->find(axis.name);
    if (!place || place->string() == "replicate") continue;
    const std::string& text = place->string();
    const std::size_t open = text.find('(');
    const std::size_t comma = text.find(',');
    const Index dim = std::stoll(text.substr(open + 1));
    Level level;
    level.axis = axis.name;
    level.axis_size = axis.size;
    if (comma != std::string::npos) level.stride = std::stoll(text.substr(comma + 1));
    said[dim < 0 ? dim + rank : dim].levels.push_back(level);
  }
  const Value& shard = *c.find("expect")->find("shard");
  CHECK(said.size() == shard.object().size());
  const Index length = 2 * 3 * 4 * 4 * 4;
  for (const auto& [dim, value, position] : shard.object()) {
    CAPTURE(dim);
    const DimCut expected = cases::read_dim(value, mesh);
    CHECK(lay_out_dim(said.at(std::stoll(dim)), length, mesh) == lay_out_dim(expected, length, mesh));
  }
}

GroupCut read_group_cut(const Value& side, const Mesh& mesh) {
  GroupCut out;
  for (const auto& [dim, value, position] : side.find("shard")->object())
    out.dims.push_back({dim, cases::read_dim(value, mesh)});
  return out;
}

std::vector<GroupMember> read_members(const Value& members) {
  std::vector<GroupMember> out;
  for (const auto& [name, dims, position] : members.object()) {
    GroupMember member{name, {}};
    std::istringstream tokens(dims.string());
    for (std::string token; tokens >> token;) {
      const std::size_t slash = token.find('/');
      if (token == ".")
        member.dims.push_back({"", 1});
      else
        member.dims.push_back(
            {token.substr(0, slash), slash == std::string::npos ? 1 : std::stoll(token.substr(slash + 1))});
    }
    out.push_back(member);
  }
  return out;
}

// The group comes from a full checkpoint: sizes as the case stores them, or blocks per segment where it does not say.
void run_group(const Value& c) {
  const Value& side = *c.find("side");
  const Mesh mesh = cases::side_mesh(side);
  const GroupCut cut = read_group_cut(side, mesh);
  const std::vector<GroupMember> members = read_members(*c.find("members"));
  std::vector<std::vector<Shape>> stored;
  for (const GroupMember& member : members) {
    const Value* given = c.find("stored") ? c.find("stored")->find(member.name) : nullptr;
    Shape shape;
    for (const MemberDim& dim : member.dims) {
      if (given) break;
      Index blocks = 0;
      const Index size = c.find("dims")->find(dim.name)->integer();
      const DimCut& of = cut.of(dim.name);
      if (!of.levels.empty() && !of.levels.front().segments.empty())
        for (const Segment& segment : of.levels.front().segments) blocks += ceil_div(segment.size, dim.divisor);
      else
        blocks = ceil_div(size, dim.divisor);
      shape.push_back(blocks);
    }
    stored.push_back({given ? cases::integers(*given) : shape});
  }
  std::vector<StoredMember> found;
  for (const auto& shapes : stored) found.push_back({shapes, std::nullopt});
  const GroupShape shape = infer_group(members, {}, cut, Mesh(), found);
  for (const GroupShape::Dim& dim : shape.dims) CHECK(dim.size == c.find("dims")->find(dim.name)->integer());
  const std::vector<TensorLayout> layouts = lay_out_group(members, shape, cut, mesh);
  for (const auto& [rank, by_member, position] : c.find("expect")->find("ranks")->object())
    for (std::size_t m = 0; m < members.size(); ++m) {
      const Value& expect = *by_member.find(members[m].name);
      CHECK(layouts[m].stored_shape(std::stoll(rank)) == cases::integers(*expect.find("stored")));
      for (std::size_t d = 0; d < members[m].dims.size(); ++d)
        CHECK(intervals(part(layouts[m], std::stoll(rank), d)) == intervals(expect.find("intervals")->array()[d]));
    }
}

// Into how many parts units of `width` with blocks of `align` can be cut at most. Where only a cut by 1 is legal, a cut
// between all units is refused.
void run_aligned_units(const Value& c) {
  const Index units = c.find("semantic")->integer();
  const Index width = c.find("width")->integer();
  const Index divisor = c.find("align")->integer();
  const Index length = units * width;
  Level level;
  level.axis = "tp";
  level.axis_size = units;
  level.unit = width;
  const std::vector<BlockNumbering> blocks = {BlockNumbering(length, divisor)};
  const Index most = legal_axis_sizes(level, length, units, blocks).back();
  if (most > 1) {
    CHECK(most == c.find("expect")->find("units")->integer());
    return;
  }
  const std::vector<GroupMember> members = {{"weight", {{"out", 1}}}, {"scale", {{"out", divisor}}}};
  const GroupShape shape{{{"out", length, {}}}, {{{length}, {false}}, {{ceil_div(length, divisor)}, {false}}}};
  lay_out_group(members, shape, {{{"out", {{level}, {}, {}, Fill::kZero, {}}}}, {}}, Mesh({{"tp", units}}));
}

// The most parts, up to a wish, into which dims of all the sizes can be cut.
void run_finest_units(const Value& c) {
  const Index wish = c.find("wish")->integer();
  Level level;
  level.axis = "tp";
  std::vector<Index> common = legal_axis_sizes(level, wish, wish);
  for (const Index size : cases::integers(*c.find("sizes"))) {
    const std::vector<Index> legal = legal_axis_sizes(level, size, wish);
    std::erase_if(common, [&](Index n) { return std::find(legal.begin(), legal.end(), n) == legal.end(); });
  }
  CHECK(common.back() == c.find("expect")->find("units")->integer());
}

void run_legal_units(const Value& c) {
  const Mesh mesh({{"tp", 1}});
  DimCut cut = cases::read_dim(*c.find("cut"), mesh);
  cut.levels.resize(1);
  const Value* unit = c.find("cut")->find("unit");
  if (unit) cut.levels.front().unit = unit->integer();
  const Index size = c.find("size")->integer();
  std::vector<Index> segments;
  for (const Segment& segment : cut.levels.front().segments) segments.push_back(segment.size);
  std::vector<BlockNumbering> blocks;
  if (const Value* divisors = c.find("divisors"))
    for (const Index divisor : cases::integers(*divisors)) blocks.emplace_back(size, divisor, segments);
  CHECK(legal_axis_sizes(cut.levels.front(), size, c.find("limit")->integer(), blocks) ==
        cases::integers(*c.find("expect")->find("legal")));
}

void run_units(const Value& c) {
  const std::string& ask = c.find("ask")->string();
  if (ask == "legal")
    run_legal_units(c);
  else if (ask == "aligned")
    run_aligned_units(c);
  else
    run_finest_units(c);
}

void run_owner(const Value& c) {
  const Value* split = c.find("split");
  const Ownership ownership("axis", c.find("size")->integer(), c.find("count")->integer(),
                            split ? cases::integers(*split) : std::vector<Index>{});
  const Value* numbering = c.find("numbering");
  const Index index = c.find("index")->integer();
  const OwnedNumber found = numbering && numbering->string() == "local"
                                ? ownership.locate_local(c.find("coord")->integer(), index)
                                : ownership.locate(index);
  const Value& expect = *c.find("expect");
  CHECK(found == OwnedNumber{expect.find("global")->integer(), expect.find("coord")->integer(),
                             expect.find("local")->integer()});
}

using Runner = void (*)(const Value&);

}  // namespace

TEST_CASE("every case about one side comes out as the case file says") {
  const std::map<std::string, Runner> runners = {
      {"mesh", run_mesh},   {"layout", run_layout}, {"infer", run_infer}, {"placement", run_placement},
      {"group", run_group}, {"units", run_units},   {"owner", run_owner}};
  cases::Tally tally;
  for (const Value& c : cases::load("shard_cases.json")) {
    const std::string& kind = c.find("kind")->string();
    const auto runner = runners.find(kind);
    if (runner == runners.end()) continue;
    const std::string id = c.find("id")->string();
    CAPTURE(id);
    const std::set<std::string> errors = cases::expected_errors(*c.find("expect"));
    if (kind == "placement" && !errors.empty()) {
      ++tally.not_applicable[kind][kPlanReader];
      continue;
    }
    ++tally.ran[kind];
    if (errors.empty()) {
      runner->second(c);
    } else {
      const std::string code = cases::code_of([&] { runner->second(c); });
      CAPTURE(code);
      CHECK(errors.contains(code));
    }
  }
  CHECK(tally.ran ==
        std::map<std::string, int>{
            {"mesh", 6}, {"layout", 53}, {"infer", 25}, {"placement", 8}, {"group", 14}, {"units", 8}, {"owner", 8}});
  CHECK(tally.not_applicable == std::map<std::string, std::map<std::string, int>>{{"placement", {{kPlanReader, 4}}}});
}
