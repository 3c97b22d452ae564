#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "support/plan_drawer.hpp"

namespace reshard::plan_cases {

PlanCase Drawer::draw() {
  for (SideSpec& side : out_.sides) side = draw_side();
  for (std::size_t s = 0; s < kSides; ++s) {
    const auto lacks = [&](std::size_t other, const std::string& name) {
      return !find_axis(out_.sides[other].axes, name);
    };
    for (const char* name : {"pp", "dp", "cp", "tp", "gtp"})
      if (lacks(s, name) && !lacks((s + 1) % kSides, name) && !lacks((s + 2) % kSides, name))
        elsewhere_[s].emplace_back(name);
  }
  if (wishes("vars", 90, 20)) out_.vars = variables();
  out_.merges_overrides = wishes("merged override", 90, 40);
  const auto rules = static_cast<std::size_t>(random_.between(3, 6));
  const auto is_wished = [&](std::initializer_list<const char*> features) {
    return out_.rules.empty() && std::find(features.begin(), features.end(), wish_) != features.end();
  };
  while (out_.rules.size() < rules) {
    const Index kind = random_.between(1, 100);
    if (is_wished(
            {"group", "group divisors", "optional member", "dotted suffix", "absent weight", "numbering restarts"})) {
      draw_group();
    } else if (is_wished({"column", "row"})) {
      draw_projection();
    } else if (is_wished({"place", "place from the end", "place chunk", "place strided", "place replicate"})) {
      draw_tensors(true, false);
    } else if (is_wished({"owner", "owner split", "owner by number", "owner list", "local numbers"})) {
      draw_tensors(false, true);
    } else if (is_wished({"drop", "unmatched", "optional"})) {
      draw_whole();
    } else if (kind <= 36) {
      draw_tensors(false, false);
    } else if (kind <= 50) {
      draw_tensors(true, false);
    } else if (kind <= 64) {
      draw_tensors(false, true);
    } else if (kind <= 78) {
      draw_group();
    } else if (kind <= 92) {
      draw_projection();
    } else {
      draw_whole();
    }
  }
  for (const Rule& rule : out_.rules) {
    const auto a = rule.by_side[0].find("shard");
    const bool changes = a != rule.by_side[0].end() && !rule.common.contains("members") &&
                         !rule.common.contains("projection") && rule.by_side[0] != rule.by_side[1];
    if (out_.merges_overrides && changes) see("merged override", 4);
  }
  share_files();
  for (const SideSpec& side : out_.sides) {
    if (side.format == "hdf5") see("hdf5", 3);
    if (!side.files.empty()) see("files", 3);
  }
  return std::move(out_);
}

void Drawer::see(const std::string& feature, int section) {
  out_.features.insert(feature);
  out_.features.insert(fmt::format("section {}", section));
}

bool Drawer::wishes(const std::string& feature, Index percent, Index otherwise) {
  return random_.chance(wish_ == feature ? percent : otherwise);
}

SideSpec Drawer::draw_side() {
  SideSpec out;
  std::vector<std::string> names = {"pp", "dp", "cp", "tp", "gtp"};
  random_.shuffle(names);
  names.resize(static_cast<std::size_t>(random_.between(1, 3)));
  const auto want = [&](const char* name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.front() = name;
  };
  if (wish_ == "column" || wish_ == "row") want("tp");
  if (wish_.starts_with("owner") || wish_ == "local numbers") want("pp");
  for (const std::string& name : names) {
    Index size = random_.one_of<Index>({1, 2, 2, 2, 3, 4});
    if (out.world() * size > 8) size = 1;
    out.axes.push_back({name, size});
  }
  const Index world = out.world();
  if (wishes("view", 80, 25)) {
    std::vector<Index> divisors;
    for (Index d = 1; d <= world; ++d)
      if (world % d == 0) divisors.push_back(d);
    const Index ep = random_.one_of(divisors);
    out.expert = {{"ep", ep}, {"etp", world / ep}};
  }
  if (wishes("ranks", 60, 20)) {
    out.ranks.resize(static_cast<std::size_t>(world));
    std::iota(out.ranks.begin(), out.ranks.end(), 0);
    random_.shuffle(out.ranks);
    see("ranks", 3);
  }
  out.format = wishes("hdf5", 60, 12) ? "hdf5" : "safetensors";
  if (random_.chance(25)) {
    out.files = random_.chance(50) ? "part-" : "shards/part-";
    if (random_.chance(40))
      for (const layout::Axis& axis : out.axes) out.fields.push_back(axis.name);
    random_.shuffle(out.fields);
  }
  if (wishes("shared files", 90, 20) && out.axes.size() > 1) {
    const layout::Axis& axis = random_.one_of(out.axes);
    out.idle = axis.name;
    out.expert.clear();
  }
  return out;
}

/// Leaves the axis that cuts nothing out of the names of files, where ranks along it are indeed copies.
void Drawer::share_files() {
  for (std::size_t s = 0; s < kSides; ++s) {
    SideSpec& side = out_.sides[s];
    const auto idle = find_axis(side.axes, side.idle);
    if (side.idle.empty() || !idle || idle->size == 1) continue;
    bool copies = true;
    for (Index a = 0; a < side.world(); ++a)
      for (Index b = 0; b < side.world(); ++b) {
        bool differ = false;  // in another axis
        for (const layout::Axis& axis : side.axes)
          differ = differ || (axis.name != side.idle &&
                              coordinate(side.axes, a, axis.name) != coordinate(side.axes, b, axis.name));
        copies = copies && (differ || are_replicas(s, side.rank_at(a), side.rank_at(b)));
      }
    if (!copies) continue;
    if (side.files.empty()) side.files = "part-";
    side.fields.clear();
    for (const layout::Axis& axis : side.axes)
      if (axis.name != side.idle) side.fields.push_back(axis.name);
    see("shared files", 3);
  }
}

bool Drawer::are_replicas(std::size_t side, Index a, Index b) const {
  const auto x = static_cast<std::size_t>(a);
  const auto y = static_cast<std::size_t>(b);
  return std::all_of(out_.tensors.begin(), out_.tensors.end(), [&](const Tensor& tensor) {
    const Stored& stored = tensor.sides[side];
    return stored.present[x] == stored.present[y] &&
           std::all_of(stored.lines.begin(), stored.lines.end(), [&](const auto& dim) { return dim[x] == dim[y]; });
  });
}

Shape Drawer::draw_shape() {
  static const std::vector<Index> lengths = {0,  1,  2,  3,  4,  5,  6,  7,  8, 9,  10, 12, 14, 15, 16, 18,
                                             20, 24, 28, 30, 32, 36, 40, 48, 8, 12, 16, 24, 24, 32, 48};
  Shape out;
  Index elements = 1;
  for (Index d = random_.one_of<Index>({0, 1, 1, 2, 2, 2, 2, 3}); d > 0; --d) {
    Index length = random_.one_of(lengths);
    if (length * elements > 1500) length = random_.between(1, 3);
    elements *= std::max(length, Index{1});
    out.push_back(length);
  }
  return out;
}

bool Drawer::has_hdf5() const {
  return std::any_of(out_.sides.begin(), out_.sides.end(), [](const SideSpec& s) { return s.format == "hdf5"; });
}

Dtype Drawer::draw_dtype() {
  if (has_hdf5()) return random_.one_of<Dtype>({Dtype::kU8, Dtype::kI16, Dtype::kF32, Dtype::kI64, Dtype::kF64});
  return random_.one_of<Dtype>({Dtype::kU8, Dtype::kF8E4M3, Dtype::kBf16, Dtype::kF16, Dtype::kF32, Dtype::kI32,
                                Dtype::kI64, Dtype::kC64, Dtype::kU64});
}

/// What a rule may cut by on a side: its axes, and some that only the other sides have.
std::vector<layout::Axis> Drawer::free_axes(std::size_t side, bool expert) {
  std::vector<layout::Axis> out = axes_of(out_.sides[side], expert);
  std::erase_if(out, [&](const layout::Axis& axis) { return axis.name == out_.sides[side].idle; });
  if (!expert)
    for (const std::string& name : elsewhere_[side])
      if (wishes("axis of one side", 80, 40)) out.push_back({name, 1});
  return out;
}

/// Padding values are drawn as numbers; the dtype makes elements of them.
void Drawer::add(Tensor tensor) {
  for (Stored& stored : tensor.sides)
    for (std::vector<std::byte>& value : stored.pad_values)
      if (!value.empty()) value = pad_element(stored.dtype, static_cast<int>(value.front()));
  for (const Stored& stored : tensor.sides)
    for (const auto& dim : stored.lines)
      for (const naive::Line& line : dim)
        for (const naive::Cell& cell : line) {
          if (cell.copy_of != naive::kPadding) see("fill last", 5);
          if (cell.temporary) see("temporary padding", 9);
        }
  if (tensor.shape.empty()) see("scalar", 6);
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) see("empty tensor", 6);
  out_.tensors.push_back(std::move(tensor));
}

const std::vector<std::string>& features() {
  static const std::vector<std::string> all = {
      // sections 2 and 3
      "vars", "unmatched", "ranks", "view", "hdf5", "files", "shared files", "axis of one side",
      // section 4
      "patterns", "rename", "dtype", "drop", "optional", "owner", "owner split", "owner by number", "owner list",
      "local numbers", "merged override", "rule fallback",
      // section 5
      "segments", "segment options", "stride", "unit", "balanced", "chunk", "shares", "repeat", "replicate", "pad_to",
      "pad_rows", "pad_total", "fill last", "inner options",
      // section 6
      "several axes", "scalar", "empty tensor",
      // section 7
      "place", "place from the end", "place chunk", "place strided", "place replicate",
      // section 8
      "group", "group divisors", "optional member", "dotted suffix", "absent weight", "numbering restarts", "column",
      "row",
      // section 9
      "zigzag", "striped", "packed", "packed by name", "packed with padding", "temporary padding", "pad_value"};
  return all;
}

PlanCase draw(random_layouts::Random& random, const std::string& wish) {
  const std::map<std::string, std::string> ways = {
      {"pad_to", "padding"},          {"pad_rows", "padding"},           {"pad_value", "packed"},
      {"packed by name", "packed"},   {"packed with padding", "packed"}, {"temporary padding", "packed"},
      {"segment options", "segments"}};
  const auto way = ways.find(wish);
  return Drawer(random, way == ways.end() ? wish : way->second).draw();
}

}  // namespace reshard::plan_cases
