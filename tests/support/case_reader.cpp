#include "support/case_reader.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "reshard/base/json.hpp"

namespace reshard::cases {
namespace {

using layout::DimCut;
using layout::Level;
using layout::Mesh;

[[noreturn]] void refuse(ErrorCode code, const std::string& message) {
  throw Error(Issue{code, "", kNoTensor, message});
}

[[noreturn]] void unknown(std::string_view what, const std::string& name) {
  throw std::runtime_error("case reader: unknown " + std::string(what) + " '" + name + "'");
}

layout::Fallback read_fallback(const std::string& name) {
  if (name == "error") return layout::Fallback::kError;
  if (name == "replicate") return layout::Fallback::kReplicate;
  if (name == "repeat") return layout::Fallback::kRepeat;
  unknown("fallback", name);
}

void read_option(const std::string& key, const Value& value, Level& first, Level& last, DimCut& cut) {
  if (key == "unit") {
    first.unit = value.integer();
  } else if (key == "segments") {
    for (const Value& segment : value.array()) {
      layout::Segment read;
      read.size = segment.is_integer() ? segment.integer() : segment.find("size")->integer();
      if (const Value* unit = segment.find("unit")) read.unit = unit->integer();
      if (const Value* fallback = segment.find("fallback")) read.fallback = read_fallback(fallback->string());
      first.segments.push_back(read);
    }
  } else if (key == "stride") {
    first.stride = value.integer();
  } else if (key == "split") {
    if (value.is_array()) {
      first.split = layout::Split::kShares;
      first.shares = integers(value);
    } else if (value.string() == "balanced" || value.string() == "chunk") {
      first.split = value.string() == "chunk" ? layout::Split::kChunk : layout::Split::kBalanced;
    } else if (value.string() != "even") {
      unknown("split", value.string());
    }
  } else if (key == "fallback") {
    first.fallback = read_fallback(value.string());
  } else if (key == "layout") {
    if (value.string() == "zigzag")
      first.layout = layout::SequenceLayout::kZigzag;
    else if (value.string() == "striped")
      first.layout = layout::SequenceLayout::kStriped;
    else if (value.string() != "contiguous")
      refuse(ErrorCode::kSchema, "unknown layout '" + value.string() + "'");
  } else if (key == "block") {
    first.block = value.integer();
  } else if (key == "pad_to") {
    last.pad_to = value.integer();
  } else if (key == "pad_rows") {
    last.pad_rows = value.integer();
  } else if (key == "pad_total") {
    cut.pad_total = value.integer();
  } else if (key == "size") {
    cut.size = value.integer();
  } else if (key == "fill") {
    cut.fill = value.string() == "last" ? layout::Fill::kLast : layout::Fill::kZero;
  } else {
    unknown("shard key", key);
  }
}

}  // namespace

Value::Array load(const std::string& file) {
  const std::string path = std::string(RESHARD_TEST_DATA) + "/" + file;
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("cannot open " + path);
  std::stringstream text;
  text << stream.rdbuf();
  return parse_json(text.str(), file).find("cases")->array();
}

std::vector<Index> integers(const Value& list) {
  std::vector<Index> out;
  for (const Value& value : list.array()) out.push_back(value.integer());
  return out;
}

Mesh read_mesh(const Value& axes, const Value* ranks) {
  std::vector<layout::Axis> read;
  for (const Value& axis : axes.array()) {
    const std::size_t equals = axis.string().find('=');
    read.push_back({axis.string().substr(0, equals), std::stoll(axis.string().substr(equals + 1))});
  }
  return Mesh(std::move(read), ranks ? integers(*ranks) : std::vector<Index>{});
}

Mesh side_mesh(const Value& side) {
  return read_mesh(*side.find("axes"), side.find("ranks"));
}

DimCut read_dim(const Value& value, const Mesh& mesh, const std::set<std::string>& other_axes) {
  DimCut cut;
  const Value* axes = value.is_object() ? value.find("axes") : &value;
  const Value::Array listed = !axes ? Value::Array{} : axes->is_array() ? axes->array() : Value::Array{*axes};
  for (const Value& axis : listed) {
    Level level;
    level.axis = axis.is_string() ? axis.string() : axis.find("axis")->string();
    const auto size = mesh.axis_size(level.axis);
    if (!size && !other_axes.contains(level.axis)) refuse(ErrorCode::kAxisUnknown, "axis '" + level.axis + "'");
    level.axis_size = size.value_or(1);
    if (axis.is_object())
      for (const auto& [key, option, position] : axis.object())
        if (key != "axis") read_option(key, option, level, level, cut);
    cut.levels.push_back(level);
  }
  if (value.is_object()) {
    Level none;
    for (const auto& [key, option, position] : value.object())
      if (key != "axes")
        read_option(key, option, cut.levels.empty() ? none : cut.levels.front(),
                    cut.levels.empty() ? none : cut.levels.back(), cut);
  }
  return cut;
}

layout::TensorCut read_cut(const Value* shard, std::size_t rank, const Mesh& mesh,
                           const std::set<std::string>& other_axes) {
  layout::TensorCut out;
  out.dims.resize(rank);
  std::vector<bool> taken(rank, false);
  std::set<std::string> used;
  if (!shard) return out;
  for (const auto& [key, value, position] : shard->object()) {
    const Index written = std::stoll(key);
    const Index dims = static_cast<Index>(rank);
    if (written < -dims || written >= dims) refuse(ErrorCode::kDimRange, "dim " + key);
    const auto dim = static_cast<std::size_t>(written < 0 ? written + dims : written);
    if (taken[dim]) refuse(ErrorCode::kDimDup, "dim " + key);
    taken[dim] = true;
    out.dims[dim] = read_dim(value, mesh, other_axes);
    for (const Level& level : out.dims[dim].levels)
      if (!used.insert(level.axis).second) refuse(ErrorCode::kAxisReused, "axis '" + level.axis + "'");
  }
  return out;
}

std::set<std::string> axis_names(const Mesh& mesh) {
  std::set<std::string> out;
  for (const layout::Axis& axis : mesh.axes()) out.insert(axis.name);
  return out;
}

std::set<std::string> expected_errors(const Value& expect) {
  std::set<std::string> out;
  if (const Value* error = expect.find("error")) out.insert(error->string());
  if (const Value* others = expect.find("or"))
    for (const Value& other : others->array()) out.insert(other.string());
  return out;
}

bool belongs_to_the_plan_reader(const std::set<std::string>& codes) {
  for (const char* code : {"E_AXIS_UNKNOWN", "E_AXIS_REUSED", "E_DIM_RANGE", "E_DIM_DUP", "E_PARTIAL"})
    if (codes.contains(code)) return true;
  return false;
}

std::string code_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return std::string(code_name(error.issues().front().code));
  }
  return "accepted";
}

}  // namespace reshard::cases
