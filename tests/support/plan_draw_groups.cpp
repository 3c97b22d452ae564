#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "support/naive_blocks.hpp"
#include "support/plan_drawer.hpp"

namespace reshard::plan_cases {

/// One dim of a group, in steps of k.
std::optional<DimCut> Drawer::draw_group_dim(Index length, Index k, const std::vector<Index>& segments,
                                             const std::vector<layout::Axis>& axes, std::set<std::string>& seen) {
  if (!segments.empty()) {
    // Parts that are no whole number of blocks: the last unit of each is short.
    DimCut out;
    layout::Level& level = out.levels.emplace_back();
    level.axis = axes.front().name;
    level.axis_size = axes.front().size;
    for (const Index size : segments) level.segments.push_back({size, {}, {}});
    level.unit = k;
    level.split = random_.chance(50) ? layout::Split::kBalanced : layout::Split::kChunk;
    seen = {"numbering restarts"};
    return out;
  }
  if (axes.empty()) return DimCut{};
  DimCut out = random_layouts::in_steps_of(random_layouts::draw_dim(random_, length / k, axes, wish_, seen), k);
  if (k > 1) std::erase_if(seen, [](const std::string& feature) { return feature == "unit"; });
  const bool is_told = !out.levels.front().segments.empty() || out.levels.front().packed;
  if (length % k != 0 && is_told) return std::nullopt;
  // A manifest cannot say every cut of blocks that these make behind another axis.
  const bool behind = out.levels.size() > 1;
  for (layout::Level& level : out.levels) {
    if (level.split == layout::Split::kShares && level.axis_size == 1) level.shares = {1};
    if (k > 1 && behind && (level.packed || level.pad_rows)) return std::nullopt;
  }
  if (k > 1 && out.levels.front().packed && out.levels.front().layout == layout::SequenceLayout::kZigzag)
    for (const Index boundary : out.levels.front().packed->cu_seqlens)
      if (boundary % (2 * out.levels.front().axis_size * k) != 0) return std::nullopt;
  return out;
}

bool Drawer::fits_blocks(const std::vector<naive::Line>& lines, Index length, Index k,
                         const std::vector<Index>& segments) const {
  const std::vector<Index> number = naive::number_blocks(length, k, segments);
  return std::all_of(lines.begin(), lines.end(), [&](const naive::Line& line) {
    const auto blocks = naive::to_blocks(line, number, k);
    // Padding must make whole blocks.
    return blocks && (!segments.empty() ||
                      blocks->size() == (line.size() + static_cast<std::size_t>(k) - 1) / static_cast<std::size_t>(k));
  });
}

void Drawer::draw_group() {
  const std::size_t number = out_.rules.size();
  const std::string prefix = fmt::format("g{}", number);
  const Index k = random_.one_of<Index>({1, 2, 2, 3, 4, 8});
  GroupDims dims;
  dims.lengths = {k * random_.one_of<Index>({2, 4, 6, 8, 12}), k * random_.one_of<Index>({2, 3, 4, 8})};
  if (k > 1 && random_.chance(20)) dims.lengths[0] -= random_.between(1, k - 1);
  if (k > 1 && wishes("numbering restarts", 90, 25)) {
    // Blocks per part must be more than blocks through the dim, or nothing tells which are meant.
    dims.segments[0] = {k * random_.between(1, 4) + random_.between(1, k - 1),
                        k * random_.between(1, 4) + random_.between(1, k - 1)};
    dims.lengths[0] = dims.segments[0][0] + dims.segments[0][1];
    const Index through = (dims.lengths[0] + k - 1) / k;
    if (through == naive::number_blocks(dims.lengths[0], k, dims.segments[0]).back() + 1) return;
  }
  const bool expert = random_.chance(20);
  Rule rule;
  std::set<std::string> shown;
  std::vector<Tensor> boundaries;
  for (std::size_t s = 0; s < kSides; ++s) {
    const SideSpec& side = out_.sides[s];
    if (expert && !side.expert.empty()) rule.by_side[s]["view"] = R"("expert")";
    bool done = false;
    for (int attempt = 0; attempt < 200 && !done; ++attempt) {
      std::array<std::vector<layout::Axis>, 2> by_dim;
      for (const layout::Axis& axis : free_axes(s, expert))
        if (random_.chance(80)) by_dim[static_cast<std::size_t>(random_.between(0, 1))].push_back(axis);
      if (!dims.segments[0].empty() && by_dim[0].size() != 1) continue;
      Wording wording{random_, !out_.vars.empty()};
      std::vector<std::string> entries;
      std::set<std::string> seen_here;
      std::vector<Tensor> named;
      done = true;
      for (std::size_t d = 0; d < 2 && done; ++d) {
        std::set<std::string> seen;
        std::optional<DimCut> cut = draw_group_dim(dims.lengths[d], k, dims.segments[d], by_dim[d], seen);
        const auto drawn = cut ? lines_of(*cut, dims.lengths[d], side, axes_of(side, expert)) : std::nullopt;
        done = drawn && fits_blocks(*drawn, dims.lengths[d], k, dims.segments[d]);
        if (!done) break;
        dims.lines[s][d] = *drawn;
        note_cut(*cut, seen, seen_here);
        if (cut->levels.empty()) continue;
        if (cut->levels.front().packed) name_boundaries(*cut->levels.front().packed, named);
        entries.push_back(fmt::format(R"("{}": {})", d == 0 ? "out" : "in", wording.cut(*cut, dims.lengths[d])));
      }
      if (!done) continue;
      if (!entries.empty()) rule.by_side[s]["shard"] = fmt::format("{{{}}}", fmt::join(entries, ", "));
      shown.merge(seen_here);
      boundaries.insert(boundaries.end(), named.begin(), named.end());
    }
    if (!done) return;
    rule.match[s] = prefix;
  }

  // Without a weight only blocks tell how long the dims are.
  const bool bare = k > 1 && dims.segments[0].empty() && wishes("absent weight", 80, 30);
  std::vector<Member> members;
  if (!bare) members.push_back({"weight", "weight", {{0, 1}, {1, 1}}, false});
  if (bare || random_.chance(75)) members.push_back({"scale", "scale", {{0, k}, {1, k}}, false});
  if (random_.chance(60))
    members.push_back({"part.bias", random_.chance(50) ? "part.bias?" : "part.bias", {{0, bare ? k : 1}}, false});
  if (random_.chance(40)) members.push_back({"zeros", "zeros", {{-1, 1}, {1, k}}, false});
  if (random_.chance(60)) members.push_back({"bias", "bias?", {{1, bare ? k : 1}}, random_.chance(60)});
  std::vector<std::string> texts;
  for (const Member& member : members) {
    std::string tokens;
    for (const auto& [dim, divisor] : member.dims) {
      const std::string name = dim < 0 ? "." : dim == 0 ? "out" : "in";
      tokens += (tokens.empty() ? "" : " ") + (divisor == 1 || dim < 0 ? name : fmt::format("{}/{}", name, divisor));
    }
    texts.push_back(fmt::format(R"("{}": "{}")", member.written, tokens));
  }
  rule.common["members"] = fmt::format("{{{}}}", fmt::join(texts, ", "));
  out_.rules.push_back(std::move(rule));
  for (Tensor& tensor : boundaries) {
    Rule& whole = out_.rules.emplace_back();
    whole.match.fill(tensor.names[0]);
    add(std::move(tensor));
    see("packed by name", 9);
  }
  for (const std::string& feature : shown) see(feature, 8);
  see("group", 8);
  if (bare) see("absent weight", 8);
  for (const Member& member : members) {
    if (member.written != member.suffix) see("optional member", 8);
    if (member.suffix.find('.') != std::string::npos) see("dotted suffix", 8);
    for (const auto& [dim, divisor] : member.dims)
      if (dim >= 0 && divisor > 1) see("group divisors", 8);
  }
  add_members(prefix, members, dims);
}

/// An affine layer in short: `column` cuts what it puts out, `row` what it takes in, both by tp.
void Drawer::draw_projection() {
  const std::size_t number = out_.rules.size();
  const std::string prefix = fmt::format("p{}", number);
  const bool column = wish_ == "column" || (wish_ != "row" && random_.chance(50));
  int lacking = 0;
  Index together = 1;
  for (const SideSpec& side : out_.sides) {
    const auto tp = find_axis(side.axes, "tp");
    lacking += tp ? 0 : 1;
    together = std::lcm(together, tp ? tp->size : 1);
  }
  if (lacking > 1) return;  // an axis that neither side of a plan has
  GroupDims dims;
  const std::size_t cut_dim = column ? 0 : 1;
  dims.lengths = {together * random_.between(1, 4), together * random_.between(1, 4)};
  Rule rule;
  rule.common["projection"] = column ? R"("column")" : R"("row")";
  Wording wording{random_, !out_.vars.empty()};
  for (std::size_t s = 0; s < kSides; ++s) {
    const SideSpec& side = out_.sides[s];
    DimCut cut;
    layout::Level& level = cut.levels.emplace_back();
    level.axis = "tp";
    const auto tp = find_axis(side.axes, "tp");
    level.axis_size = tp ? tp->size : 1;
    std::string options;
    if (random_.chance(40)) {
      // Beside what the short form says.
      level.unit = dims.lengths[cut_dim] / together;
      options = fmt::format(R"("unit": {})", wording.number(level.unit));
    } else if (random_.chance(40)) {
      level.split = layout::Split::kBalanced;
      options = R"("split": "balanced")";
    }
    if (!options.empty()) rule.by_side[s]["shard"] = fmt::format(R"({{"{}": {{{}}}}})", column ? "out" : "in", options);
    for (std::size_t d = 0; d < 2; ++d) {
      const auto lines = lines_of(d == cut_dim ? cut : DimCut{}, dims.lengths[d], side, side.axes);
      if (!lines) return;
      dims.lines[s][d] = *lines;
    }
    rule.match[s] = prefix;
  }
  std::vector<Member> members = {{"weight", "weight", {{0, 1}, {1, 1}}, false}};
  members.push_back({"bias", "bias?", {{0, 1}}, random_.chance(30)});
  out_.rules.push_back(std::move(rule));
  see(column ? "column" : "row", 8);
  see("optional member", 8);
  add_members(prefix, members, dims);
}

void Drawer::add_members(const std::string& prefix, const std::vector<Member>& members, const GroupDims& dims) {
  for (const Member& member : members) {
    if (member.absent) continue;
    Tensor tensor;
    tensor.names.fill(fmt::format("{}.{}", prefix, member.suffix));
    const Dtype dtype = draw_dtype();
    std::vector<std::vector<Index>> numbers;  // the block of every element, by dim
    for (const auto& [dim, divisor] : member.dims) {
      const auto d = static_cast<std::size_t>(std::max(dim, 0));
      numbers.push_back(dim < 0 ? std::vector<Index>{0, 1, 2}
                                : naive::number_blocks(dims.lengths[d], divisor, dims.segments[d]));
      tensor.shape.push_back(numbers.back().empty() ? 0 : numbers.back().back() + 1);
    }
    for (std::size_t s = 0; s < kSides; ++s) {
      Stored& stored = tensor.sides[s];
      stored.name = tensor.names[s];
      stored.dtype = dtype;
      stored.present.assign(static_cast<std::size_t>(out_.sides[s].world()), true);
      stored.pad_values.assign(member.dims.size(), {});
      for (std::size_t m = 0; m < member.dims.size(); ++m) {
        const auto& [dim, divisor] = member.dims[m];
        std::vector<naive::Line>& out = stored.lines.emplace_back();
        for (std::size_t rank = 0; rank < stored.present.size(); ++rank)
          out.push_back(
              dim < 0 ? naive::Line{{0, -1, false}, {1, -1, false}, {2, -1, false}}
                      : *naive::to_blocks(dims.lines[s][static_cast<std::size_t>(dim)][rank], numbers[m], divisor));
      }
    }
    add(std::move(tensor));
  }
}

}  // namespace reshard::plan_cases
