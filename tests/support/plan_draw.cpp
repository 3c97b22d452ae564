#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "support/plan_cases.hpp"

namespace reshard::plan_cases {
namespace {

using layout::DimCut;
using random_layouts::Random;

/// The padding values that cases are drawn with, 1 and 2, as elements.
std::vector<std::byte> pad_element(Dtype dtype, int value) {
  const std::map<Dtype, std::array<std::uint64_t, 2>> floats = {{Dtype::kF64, {0x3ff0000000000000, 0x4000000000000000}},
                                                                {Dtype::kF32, {0x3f800000, 0x40000000}},
                                                                {Dtype::kC64, {0x3f800000, 0x40000000}},
                                                                {Dtype::kBf16, {0x3f80, 0x4000}},
                                                                {Dtype::kF16, {0x3c00, 0x4000}},
                                                                {Dtype::kF8E4M3, {0x38, 0x40}}};
  const auto known = floats.find(dtype);
  const std::uint64_t bits =
      known == floats.end() ? static_cast<std::uint64_t>(value) : known->second[static_cast<std::size_t>(value - 1)];
  std::vector<std::byte> out(static_cast<std::size_t>(size_bytes(dtype)));
  for (std::size_t i = 0; i < std::min<std::size_t>(out.size(), 8); ++i)
    out[i] = static_cast<std::byte>(bits >> (8 * i));
  return out;
}

/// The axes that a placement is drawn from.
const std::vector<layout::Axis>& axes_of(const SideSpec& side, bool expert) {
  return expert && !side.expert.empty() ? side.expert : side.axes;
}

std::optional<layout::Axis> find_axis(const std::vector<layout::Axis>& axes, const std::string& name) {
  for (const layout::Axis& axis : axes)
    if (axis.name == name) return axis;
  return std::nullopt;
}

Index coordinate(const std::vector<layout::Axis>& axes, Index position, const std::string& name) {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->name == name) return position % axis->size;
    position /= axis->size;
  }
  return 0;
}

class Drawer {
 public:
  Drawer(Random& random, std::string wish) : random_(random), wish_(std::move(wish)) {}

  PlanCase draw() {
    for (SideSpec& side : out_.sides) side = draw_side();
    const std::size_t tensors = static_cast<std::size_t>(random_.between(2, 5));
    while (out_.tensors.size() < tensors) {
      const bool first = out_.tensors.empty();
      const Index kind = random_.between(1, 100);
      if (first && (wish_ == "group" || wish_ == "group divisors")) {
        draw_group();
      } else if (first && wish_ == "place") {
        draw_tensors(true, false);
      } else if (first && (wish_ == "owner" || wish_ == "local numbers")) {
        draw_tensors(false, true);
      } else if (kind <= 50) {
        draw_tensors(false, false);
      } else if (kind <= 62) {
        draw_tensors(true, false);
      } else if (kind <= 76) {
        draw_tensors(false, true);
      } else if (kind <= 90) {
        draw_group();
      } else {
        draw_whole();
      }
    }
    for (const SideSpec& side : out_.sides)
      if (side.format == "hdf5") see("hdf5", 2);
    return std::move(out_);
  }

 private:
  void see(const std::string& feature, int section) {
    out_.features.insert(feature);
    out_.features.insert(fmt::format("section {}", section));
  }

  SideSpec draw_side() {
    SideSpec out;
    std::vector<std::string> names = {"pp", "dp", "cp", "tp", "gtp"};
    random_.shuffle(names);
    names.resize(static_cast<std::size_t>(random_.between(1, 3)));
    if (wish_ == "owner" || wish_ == "local numbers")
      if (std::find(names.begin(), names.end(), "pp") == names.end()) names.front() = "pp";
    for (const std::string& name : names) {
      Index size = random_.one_of<Index>({1, 2, 2, 2, 3, 4});
      if (out.world() * size > 8) size = 1;
      out.axes.push_back({name, size});
    }
    const Index world = out.world();
    if (random_.chance(wish_ == "view" ? 80 : 25)) {
      std::vector<Index> divisors;
      for (Index d = 1; d <= world; ++d)
        if (world % d == 0) divisors.push_back(d);
      const Index ep = random_.one_of(divisors);
      out.expert = {{"ep", ep}, {"etp", world / ep}};
    }
    if (random_.chance(20)) {
      out.ranks.resize(static_cast<std::size_t>(world));
      std::iota(out.ranks.begin(), out.ranks.end(), 0);
      random_.shuffle(out.ranks);
      see("ranks", 3);
    }
    out.format = random_.chance(wish_ == "hdf5" ? 60 : 12) ? "hdf5" : "safetensors";
    if (random_.chance(20)) out.files = random_.chance(50) ? "part-" : "shards/part-";
    return out;
  }

  Shape draw_shape() {
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

  Dtype draw_dtype() {
    const bool native =
        std::any_of(out_.sides.begin(), out_.sides.end(), [](const SideSpec& s) { return s.format == "hdf5"; });
    if (native) return random_.one_of<Dtype>({Dtype::kU8, Dtype::kI16, Dtype::kF32, Dtype::kI64, Dtype::kF64});
    return random_.one_of<Dtype>({Dtype::kU8, Dtype::kF8E4M3, Dtype::kBf16, Dtype::kF16, Dtype::kF32, Dtype::kI32,
                                  Dtype::kI64, Dtype::kC64, Dtype::kU64});
  }

  /// The lines of a cut by rank; nothing where it is refused.
  static std::optional<std::vector<naive::Line>> lines_of(const DimCut& cut, Index length, const SideSpec& side,
                                                          const std::vector<layout::Axis>& axes) {
    const naive::CutDim dim = naive::cut_dim(cut, length);
    if (!dim.faults.empty()) return std::nullopt;
    std::vector<naive::Line> out = naive::lines_by_rank(dim, cut, axes, side.ranks);
    for (const naive::Line& line : out)
      if (length == 0 && !line.empty()) return std::nullopt;  // nothing but padding
    return out;
  }

  /// Whether the stored lengths alone tell the true one.
  static bool is_inferred(const DimCut& cut, Index length) {
    if (cut.pad_total) return false;
    std::vector<Index> stored;
    Index limit = 0;
    for (const naive::Line& line : naive::cut_dim(cut, length).lines) {
      stored.push_back(static_cast<Index>(line.size()));
      limit += stored.back();
    }
    return limit <= 200 && naive::lengths_that_fit(cut, stored, limit) == std::vector<Index>{length};
  }

  void note_cut(const DimCut& cut, const std::set<std::string>& seen) {
    static const std::set<std::string> sequence = {"zigzag", "striped", "packed"};
    for (const std::string& feature : seen)
      if (feature != "plain" && feature != "padding") see(feature, sequence.contains(feature) ? 9 : 5);
    Index cutting = 0;
    for (const layout::Level& level : cut.levels) cutting += level.axis_size > 1 ? 1 : 0;
    if (cutting > 1) see("several axes", 6);
    if (cut.pad_value) see("pad_value", 9);
  }

  /// `shard` of one side for a shape; fills the lines. Axes are shared out among the dims at random.
  std::optional<std::string> draw_shard(const Shape& shape, const SideSpec& side, const std::vector<layout::Axis>& axes,
                                        std::vector<layout::Axis> free, Stored& stored) {
    random_.shuffle(free);
    std::vector<std::vector<layout::Axis>> by_dim(shape.size());
    for (const layout::Axis& axis : free)
      if (!shape.empty() && random_.chance(85))
        by_dim[static_cast<std::size_t>(random_.between(0, static_cast<Index>(shape.size()) - 1))].push_back(axis);
    std::vector<std::string> entries;
    std::vector<std::pair<DimCut, std::set<std::string>>> drawn;
    stored.lines.clear();
    stored.pad_values.assign(shape.size(), {});
    for (std::size_t d = 0; d < shape.size(); ++d) {
      DimCut cut;
      std::set<std::string> seen;
      if (!by_dim[d].empty()) cut = random_layouts::draw_dim(random_, shape[d], by_dim[d], wish_, seen);
      for (layout::Level& level : cut.levels)
        if (level.split == layout::Split::kShares && level.axis_size == 1) level.shares = {1};
      if (!cut.levels.empty() && cut.levels.front().packed && random_.chance(60)) cut.pad_value = random_.between(1, 2);
      std::optional<std::vector<naive::Line>> lines = lines_of(cut, shape[d], side, axes);
      if (!lines) return std::nullopt;
      stored.lines.push_back(std::move(*lines));
      if (cut.levels.empty()) continue;
      const Index size = is_inferred(cut, shape[d]) && random_.chance(50) ? -1 : shape[d];
      const Index key =
          random_.chance(20) ? static_cast<Index>(d) - static_cast<Index>(shape.size()) : static_cast<Index>(d);
      entries.push_back(fmt::format(R"("{}": {})", key, to_json(random_, cut, size)));
      drawn.emplace_back(std::move(cut), std::move(seen));
    }
    for (std::size_t d = 0, i = 0; d < shape.size(); ++d) {
      if (by_dim[d].empty()) continue;
      const DimCut& cut = drawn[i].first;
      note_cut(cut, drawn[i++].second);
      if (cut.pad_value) stored.pad_values[d] = {static_cast<std::byte>(*cut.pad_value)};
    }
    if (entries.empty()) return std::string();
    return fmt::format("{{{}}}", fmt::join(entries, ", "));
  }

  /// `place` of one side: even, chunked or strided cuts, in the order of the mesh.
  std::optional<std::string> draw_place(const Shape& shape, const SideSpec& side, const std::vector<layout::Axis>& axes,
                                        Stored& stored) {
    std::vector<DimCut> cuts(shape.size());
    std::vector<std::string> entries;
    const auto rank = static_cast<Index>(shape.size());
    const bool from_the_end = random_.chance(25);  // one way throughout: 0 and -2 of a matrix is E_DIM_DUP
    for (const layout::Axis& axis : axes) {
      if (shape.empty() || random_.chance(25)) {
        if (random_.chance(50)) entries.push_back(fmt::format(R"("{}": "replicate")", axis.name));
        continue;
      }
      const Index d = random_.between(0, rank - 1);
      const Index key = from_the_end ? d - rank : d;
      layout::Level level;
      level.axis = axis.name;
      level.axis_size = axis.size;
      std::string text = fmt::format("shard({})", key);
      if (random_.chance(30)) {
        level.split = layout::Split::kChunk;
        text = fmt::format("shard({}, chunk)", key);
      } else if (random_.chance(30)) {
        level.stride = random_.between(2, 3);
        text = fmt::format("strided_shard({}, {})", key, level.stride);
      }
      cuts[static_cast<std::size_t>(d)].levels.push_back(level);
      entries.push_back(fmt::format(R"("{}": "{}")", axis.name, text));
    }
    stored.lines.clear();
    stored.pad_values.assign(shape.size(), {});
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::optional<std::vector<naive::Line>> lines = lines_of(cuts[d], shape[d], side, axes);
      if (!lines || !is_inferred(cuts[d], shape[d])) return std::nullopt;
      stored.lines.push_back(std::move(*lines));
    }
    if (entries.empty()) return std::string();
    return fmt::format("{{{}}}", fmt::join(entries, ", "));
  }

  /// `owner` of one side for the numbers of a rule's tensors, and where each of them is.
  struct Owner {
    std::string text;
    std::vector<Index> coordinate;  // by number
    bool local = false;
    std::vector<Index> first;  // number of every coordinate
  };
  Owner draw_owner(Index size, Index count, std::size_t capture) {
    Owner out;
    std::vector<Index> shares(static_cast<std::size_t>(size), count / size);
    std::string text = fmt::format(R"("index": "${}", "count": {})", capture, count);
    bool plain = true;
    if (random_.chance(35)) {
      shares.assign(static_cast<std::size_t>(size), 0);
      for (Index i = 0; i < count; ++i) ++shares[static_cast<std::size_t>(random_.between(0, size - 1))];
      text = fmt::format(R"("index": "${}", "split": [{}])", capture, fmt::join(shares, ", "));
      plain = false;
      see("owner split", 4);
    }
    for (Index c = 0; c < size; ++c) {
      out.first.push_back(static_cast<Index>(out.coordinate.size()));
      out.coordinate.insert(out.coordinate.end(), static_cast<std::size_t>(shares[static_cast<std::size_t>(c)]), c);
    }
    if (random_.chance(wish_ == "local numbers" ? 70 : 30)) {
      out.local = true;
      text += R"(, "numbering": "local")";
      plain = false;
      see("local numbers", 4);
    }
    out.text = plain && random_.chance(70) ? fmt::format(R"({{"pp": "${}/{}"}})", capture, count)
                                           : fmt::format(R"({{"pp": {{{}}}}})", text);
    return out;
  }

  /// A rule for one tensor, or for the tensors of some layers.
  void draw_tensors(bool placed, bool owned) {
    const std::size_t number = out_.rules.size();
    const bool expert = !owned && random_.chance(wish_ == "view" ? 80 : 25);
    const bool renamed = random_.chance(wish_ == "rename" ? 70 : 20);
    const Shape shape = draw_shape();
    const Dtype dtype = draw_dtype();
    Rule rule;
    Index count = 1;
    for (const SideSpec& side : out_.sides)
      if (const auto pp = find_axis(side.axes, "pp")) count = std::lcm(count, pp->size);
    if (owned) count *= count < 4 ? random_.between(1, 2) : 1;
    const bool fixed = owned && random_.chance(25);  // an integer, not a layer number
    std::vector<Index> numbers = {random_.between(0, count - 1)};
    if (owned && !fixed && count > 1 && random_.chance(70)) numbers.push_back((numbers.front() + 1) % count);

    std::array<Stored, kSides> cuts;
    std::array<Owner, kSides> owners;
    for (std::size_t s = 0; s < kSides; ++s) {
      const SideSpec& side = out_.sides[s];
      const std::vector<layout::Axis>& axes = axes_of(side, expert);
      const auto pp = owned ? find_axis(side.axes, "pp") : std::nullopt;
      if (expert && !side.expert.empty()) {
        rule.by_side[s]["view"] = R"("expert")";
        see("view", 4);
      }
      std::vector<layout::Axis> free = axes;
      if (owned) std::erase_if(free, [](const layout::Axis& axis) { return axis.name == "pp"; });
      std::optional<std::string> text;
      for (int i = 0; i < 100 && !text; ++i)
        text = placed ? draw_place(shape, side, free, cuts[s]) : draw_shard(shape, side, axes, free, cuts[s]);
      if (!text) return;
      if (!text->empty()) rule.by_side[s][placed ? "place" : "shard"] = *text;
      if (pp && fixed) {
        owners[s].coordinate.assign(static_cast<std::size_t>(count), 0);
        for (Index k = 0; k < count; ++k) owners[s].coordinate[static_cast<std::size_t>(k)] = k * pp->size / count;
        rule.by_side[s]["owner"] = fmt::format(R"({{"pp": "{}/{}"}})", numbers.front(), count);
      } else if (pp) {
        owners[s] = draw_owner(pp->size, count, 1);
        rule.by_side[s]["owner"] = owners[s].text;
      }
      rule.match[s] =
          fmt::format("r{}{}.{}", number, renamed ? fmt::format(".side{}", s) : "", owned && !fixed ? "*.w" : "w");
      if (renamed) rule.rename[s] = fmt::format("r{}.side{}.{}", number, s, owned && !fixed ? "$1.w" : "w");
    }
    if (renamed) see("rename", 4);
    if (placed) see("place", 7);
    if (owned) see("owner", 4);
    if (random_.chance(10)) rule.common["optional"] = "true";

    for (const Index k : numbers) {
      Tensor tensor{dtype, shape, {}, cuts, false};
      for (std::size_t s = 0; s < kSides; ++s) {
        const SideSpec& side = out_.sides[s];
        Stored& stored = tensor.sides[s];
        const auto i = static_cast<std::size_t>(k);
        const auto named = [&](Index layer) {
          std::string name = rule.match[s];
          if (const std::size_t star = name.find('*'); star != std::string::npos)
            name.replace(star, 1, std::to_string(layer));
          return name;
        };
        tensor.names[s] = named(k);
        stored.name = tensor.names[s];
        stored.present.assign(static_cast<std::size_t>(side.world()), true);
        if (owners[s].coordinate.empty()) continue;
        if (owners[s].local)
          stored.name = named(k - owners[s].first[static_cast<std::size_t>(owners[s].coordinate[i])]);
        for (Index position = 0; position < side.world(); ++position) {
          const Index rank = side.ranks.empty() ? position : side.ranks[static_cast<std::size_t>(position)];
          stored.present[static_cast<std::size_t>(rank)] =
              coordinate(side.axes, position, "pp") == owners[s].coordinate[i];
        }
      }
      add(std::move(tensor));
    }
    out_.rules.push_back(std::move(rule));
  }

  /// Entries of a `name/k` member: the block of every k stored positions; nothing where a boundary cuts a block.
  static std::optional<naive::Line> blocks(const naive::Line& line, Index k, Index length) {
    naive::Line out;
    for (std::size_t at = 0; at < line.size(); at += static_cast<std::size_t>(k)) {
      naive::Cell entry;
      Index held = 0;
      for (std::size_t i = at; i < std::min(line.size(), at + static_cast<std::size_t>(k)); ++i) {
        const naive::Cell& cell = line[i];
        if (cell.global == naive::kPadding) {
          if (entry.global == naive::kPadding && cell.copy_of != naive::kPadding) entry.copy_of = cell.copy_of / k;
          continue;
        }
        if (held == 0 && (cell.global % k != 0 || i != at)) return std::nullopt;
        if (held > 0 && (cell.global / k != entry.global || cell.global % k != held)) return std::nullopt;
        entry = {cell.global / k, naive::kPadding, false};
        ++held;
      }
      if (held > 0 && held < k && entry.global * k + held != length) return std::nullopt;
      out.push_back(entry);
    }
    return out;
  }

  /// One dim of a group: blocks of `k` stay together.
  DimCut draw_group_dim(Index length, const std::vector<layout::Axis>& axes, Index k) {
    DimCut cut;
    for (const layout::Axis& axis : axes) {
      layout::Level& level = cut.levels.emplace_back();
      level.axis = axis.name;
      level.axis_size = axis.size;
    }
    layout::Level& level = cut.levels.front();
    const Index n = level.axis_size;
    switch (random_.between(0, 6)) {
      case 0:
        level.unit = k;
        break;
      case 1:
        level.unit = k, level.split = layout::Split::kBalanced;
        break;
      case 2:
        level.unit = k, level.split = layout::Split::kChunk;
        break;
      case 3:
        if (length > n * k && length % (n * k) == 0) level.segments = {{n * k, {}, {}}, {length - n * k, {}, {}}};
        break;
      case 4:
        level.layout = layout::SequenceLayout::kZigzag;
        break;
      case 5:
        level.stride = 2;
        break;
      default:
        break;
    }
    layout::Level& last = cut.levels.back();
    if (random_.chance(30) && last.unit == 1 && last.split == layout::Split::kEven && last.segments.empty() &&
        last.stride == 1 && last.layout == layout::SequenceLayout::kContiguous) {
      last.pad_to = k;
      if (random_.chance(40)) cut.fill = layout::Fill::kLast;
    }
    return cut;
  }

  void draw_group() {
    const std::size_t number = out_.rules.size();
    const Index k = random_.one_of<Index>({1, 2, 4, 8});
    const std::array<Index, 2> lengths = {
        k * random_.one_of<Index>({2, 4, 6, 8, 12}) + (random_.chance(20) ? k / 2 : 0),
        k * random_.one_of<Index>({2, 3, 4, 8})};
    const bool expert = random_.chance(20);
    Rule rule;
    std::array<std::array<std::vector<naive::Line>, 2>, kSides> lines;
    for (std::size_t s = 0; s < kSides; ++s) {
      const SideSpec& side = out_.sides[s];
      const std::vector<layout::Axis>& axes = axes_of(side, expert);
      if (expert && !side.expert.empty()) rule.by_side[s]["view"] = R"("expert")";
      bool done = false;
      for (int attempt = 0; attempt < 200 && !done; ++attempt) {
        std::array<std::vector<layout::Axis>, 2> by_dim;
        for (const layout::Axis& axis : axes)
          if (random_.chance(80)) by_dim[static_cast<std::size_t>(random_.between(0, 1))].push_back(axis);
        std::vector<std::string> entries;
        done = true;
        for (std::size_t d = 0; d < 2 && done; ++d) {
          const DimCut cut = by_dim[d].empty() ? DimCut{} : draw_group_dim(lengths[d], by_dim[d], k);
          const auto drawn = lines_of(cut, lengths[d], side, axes);
          done = drawn && std::all_of(drawn->begin(), drawn->end(),
                                      [&](const naive::Line& line) { return blocks(line, k, lengths[d]).has_value(); });
          if (!done) break;
          lines[s][d] = *drawn;
          if (!cut.levels.empty())
            entries.push_back(fmt::format(R"("{}": {})", d == 0 ? "out" : "in", to_json(random_, cut, lengths[d])));
        }
        rule.by_side[s].erase("shard");
        if (done && !entries.empty()) rule.by_side[s]["shard"] = fmt::format("{{{}}}", fmt::join(entries, ", "));
      }
      if (!done) return;
      rule.match[s] = fmt::format("g{}", number);
    }
    struct Member {
      std::string suffix;
      std::vector<std::pair<int, Index>> dims;  // dim (-1: never cut), divisor
    };
    std::vector<Member> members = {{"weight", {{0, 1}, {1, 1}}}};
    std::string text = R"({"weight": "out in")";
    if (random_.chance(70)) {
      members.push_back({"scale", {{0, k}, {1, k}}});
      text += fmt::format(R"(, "scale": "out/{} in/{}")", k, k);
      if (k > 1) see("group divisors", 8);
    }
    if (random_.chance(50)) {
      members.push_back({"part.bias", {{0, 1}}});
      text += R"(, "part.bias": "out")";
    }
    text += R"(, "absent?": "in")";
    if (random_.chance(40)) {
      members.push_back({"zeros", {{-1, 1}, {1, k}}});
      text += fmt::format(R"(, "zeros": ". in/{}")", k);
    }
    rule.common["members"] = text + "}";
    see("group", 8);

    for (const Member& member : members) {
      Tensor tensor;
      tensor.dtype = draw_dtype();
      tensor.names.fill(fmt::format("g{}.{}", number, member.suffix));
      for (const auto& [dim, divisor] : member.dims)
        tensor.shape.push_back(dim < 0 ? 3 : (lengths[static_cast<std::size_t>(dim)] + divisor - 1) / divisor);
      for (std::size_t s = 0; s < kSides; ++s) {
        Stored& stored = tensor.sides[s];
        stored.name = tensor.names[s];
        stored.present.assign(static_cast<std::size_t>(out_.sides[s].world()), true);
        stored.pad_values.assign(member.dims.size(), {});
        for (const auto& [dim, divisor] : member.dims) {
          std::vector<naive::Line>& out = stored.lines.emplace_back();
          for (std::size_t rank = 0; rank < stored.present.size(); ++rank)
            out.push_back(dim < 0 ? naive::Line{{0, -1, false}, {1, -1, false}, {2, -1, false}}
                                  : *blocks(lines[s][static_cast<std::size_t>(dim)][rank], divisor,
                                            lengths[static_cast<std::size_t>(dim)]));
        }
      }
      add(std::move(tensor));
    }
    out_.rules.push_back(std::move(rule));
  }

  /// A tensor that every rank holds whole: by a rule without a cut, by no rule, or left out.
  void draw_whole() {
    const std::size_t number = out_.rules.size();
    Tensor tensor;
    tensor.dtype = draw_dtype();
    tensor.shape = draw_shape();
    tensor.names.fill(fmt::format("whole{}.w", number));
    const Index kind = random_.between(0, 2);
    tensor.dropped = kind == 2;
    for (std::size_t s = 0; s < kSides; ++s) {
      Stored& stored = tensor.sides[s];
      stored.name = tensor.names[s];
      const auto world = static_cast<std::size_t>(out_.sides[s].world());
      stored.present.assign(world, true);
      stored.pad_values.assign(tensor.shape.size(), {});
      for (const Index length : tensor.shape) {
        naive::Line line;
        for (Index i = 0; i < length; ++i) line.push_back({i, naive::kPadding, false});
        stored.lines.emplace_back(world, line);
      }
    }
    Rule rule;
    rule.match.fill(fmt::format("whole{}.*", number));
    if (kind == 1) {
      out_.replicates_unmatched = true;
      rule.match.fill(fmt::format("nothing{}", number));
      rule.common["optional"] = "true";
      see("unmatched", 2);
    }
    if (tensor.dropped) {
      rule.common["drop"] = "true";
      rule.common["optional"] = "true";  // the way back has no such tensor
      see("drop", 4);
    }
    out_.rules.push_back(std::move(rule));
    add(std::move(tensor));
  }

  /// Padding values are drawn as numbers; the dtype makes elements of them.
  void add(Tensor tensor) {
    for (Stored& stored : tensor.sides)
      for (std::vector<std::byte>& value : stored.pad_values)
        if (!value.empty()) value = pad_element(tensor.dtype, static_cast<int>(value.front()));
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

  Random& random_;
  std::string wish_;
  PlanCase out_;
};

}  // namespace

const std::vector<std::string>& features() {
  static const std::vector<std::string> all = {
      "segments",  "stride",    "unit",           "balanced", "chunk",  "shares",        "repeat",
      "replicate", "zigzag",    "striped",        "packed",   "pad_to", "pad_rows",      "pad_total",
      "fill last", "pad_value", "several axes",   "view",     "owner",  "local numbers", "rename",
      "place",     "group",     "group divisors", "hdf5"};
  return all;
}

PlanCase draw(random_layouts::Random& random, const std::string& wish) {
  const std::map<std::string, std::string> ways = {
      {"pad_to", "padding"}, {"pad_rows", "padding"}, {"pad_value", "packed"}};
  const auto way = ways.find(wish);
  return Drawer(random, way == ways.end() ? wish : way->second).draw();
}

}  // namespace reshard::plan_cases
