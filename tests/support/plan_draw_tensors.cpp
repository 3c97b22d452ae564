#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "support/plan_drawer.hpp"

namespace reshard::plan_cases {
namespace {

naive::Line whole_line(Index length) {
  naive::Line out;
  for (Index i = 0; i < length; ++i) out.push_back({i, naive::kPadding, false});
  return out;
}

/// A tensor that every rank of every side holds whole.
Tensor whole_tensor(const std::array<SideSpec, kSides>& sides, const std::string& name, Dtype dtype, Shape shape) {
  Tensor out;
  out.shape = std::move(shape);
  out.names.fill(name);
  for (std::size_t s = 0; s < kSides; ++s) {
    Stored& stored = out.sides[s];
    stored.name = name;
    stored.dtype = dtype;
    const auto world = static_cast<std::size_t>(sides[s].world());
    stored.present.assign(world, true);
    stored.pad_values.assign(out.shape.size(), {});
    for (const Index length : out.shape) stored.lines.emplace_back(world, whole_line(length));
  }
  return out;
}

}  // namespace

void Drawer::note_cut(const DimCut& cut, const std::set<std::string>& seen, std::set<std::string>& shown) {
  static const std::set<std::string> ways = {"plain", "padding"};
  for (const std::string& feature : seen)
    if (!ways.contains(feature)) shown.insert(feature);
  Index cutting = 0;
  for (const layout::Level& level : cut.levels) cutting += level.axis_size > 1 ? 1 : 0;
  if (cutting > 1) shown.insert("several axes");
  if (cut.pad_value) shown.insert("pad_value");
  if (!cut.levels.empty() && cut.levels.front().packed && !cut.levels.front().packed->cu_seqlens_padded.empty())
    shown.insert("packed with padding");
}

/// Boundaries of packed sequences may stand in tensors, which travel like others.
void Drawer::name_boundaries(layout::PackedSequences& packed, std::vector<Tensor>& out) {
  const auto name = [&](const std::vector<Index>& numbers, std::string& tensor) {
    if (numbers.empty() || !random_.chance(50)) return;
    tensor = fmt::format("cu{}", boundary_tensors_++);
    const Dtype dtype = random_.chance(50) ? Dtype::kI64 : Dtype::kI32;
    out.push_back(whole_tensor(out_.sides, tensor, dtype, {static_cast<Index>(numbers.size())}));
    out.back().numbers = numbers;
  };
  name(packed.cu_seqlens, packed.cu_seqlens_tensor);
  name(packed.cu_seqlens_padded, packed.cu_seqlens_padded_tensor);
}

/// `shard` of one side for a shape; fills the lines. Axes are shared out among the dims at random.
std::optional<Drawer::Words> Drawer::draw_shard(const Shape& shape, std::size_t s, bool expert,
                                                std::vector<layout::Axis> free, layout::Fallback fallback,
                                                Stored& stored) {
  const SideSpec& side = out_.sides[s];
  random_.shuffle(free);
  std::vector<std::vector<layout::Axis>> by_dim(shape.size());
  for (const layout::Axis& axis : free)
    if (!shape.empty() && random_.chance(85))
      by_dim[static_cast<std::size_t>(random_.between(0, static_cast<Index>(shape.size()) - 1))].push_back(axis);
  Words out{"shard", "", {}, {}};
  Wording wording{random_, !out_.vars.empty(), fallback};
  std::vector<std::string> entries;
  stored.lines.clear();
  stored.pad_values.assign(shape.size(), {});
  for (std::size_t d = 0; d < shape.size(); ++d) {
    DimCut cut;
    std::set<std::string> seen;
    if (!by_dim[d].empty()) cut = random_layouts::draw_dim(random_, shape[d], by_dim[d], wish_, seen);
    for (layout::Level& level : cut.levels) {
      if (level.split == layout::Split::kShares && level.axis_size == 1) level.shares = {1};
      if (level.fallback == layout::Fallback::kError) level.fallback = fallback;
    }
    const bool packed = !cut.levels.empty() && cut.levels.front().packed;
    if (packed && random_.chance(60)) cut.pad_value = random_.between(1, 2);
    std::optional<std::vector<naive::Line>> lines = lines_of(cut, shape[d], side, axes_of(side, expert));
    if (!lines) return std::nullopt;
    stored.lines.push_back(std::move(*lines));
    if (cut.levels.empty()) continue;
    if (packed) name_boundaries(*cut.levels.front().packed, out.boundaries);
    if (!out.boundaries.empty()) out.shown.insert("packed by name");
    const Index size = is_inferred(cut, shape[d]) && random_.chance(50) ? -1 : shape[d];
    const Index key =
        random_.chance(20) ? static_cast<Index>(d) - static_cast<Index>(shape.size()) : static_cast<Index>(d);
    entries.push_back(fmt::format(R"("{}": {})", key, wording.cut(cut, size)));
    note_cut(cut, seen, out.shown);
    if (cut.pad_value) stored.pad_values[d] = {static_cast<std::byte>(*cut.pad_value)};
  }
  out.shown.merge(wording.shown);
  if (!entries.empty()) out.text = fmt::format("{{{}}}", fmt::join(entries, ", "));
  return out;
}

/// `place` of one side: even, chunked or strided cuts, in the order of the mesh.
std::optional<Drawer::Words> Drawer::draw_place(const Shape& shape, std::size_t s, bool expert,
                                                const std::vector<layout::Axis>& free, layout::Fallback fallback,
                                                Stored& stored) {
  const SideSpec& side = out_.sides[s];
  std::vector<DimCut> cuts(shape.size());
  Words out{"place", "", {"place"}, {}};
  std::vector<std::string> entries;
  const auto rank = static_cast<Index>(shape.size());
  for (const layout::Axis& axis : free) {
    if (shape.empty() || random_.chance(25)) {
      if (!random_.chance(60)) continue;
      entries.push_back(fmt::format(R"("{}": "replicate")", axis.name));
      out.shown.insert("place replicate");
      continue;
    }
    const Index d = random_.between(0, rank - 1);
    const bool from_the_end = wishes("place from the end", 80, 25);
    const Index key = from_the_end ? d - rank : d;
    if (from_the_end) out.shown.insert("place from the end");
    layout::Level level;
    level.axis = axis.name;
    level.axis_size = axis.size;
    level.fallback = fallback;
    std::string text = fmt::format("shard({})", key);
    if (wishes("place chunk", 60, 30)) {
      level.split = layout::Split::kChunk;
      text = fmt::format("shard({}, chunk)", key);
      out.shown.insert("place chunk");
    } else if (wishes("place strided", 60, 30)) {
      level.stride = random_.between(2, 3);
      text = fmt::format("strided_shard({}, {})", key, level.stride);
      out.shown.insert("place strided");
    }
    cuts[static_cast<std::size_t>(d)].levels.push_back(level);
    entries.push_back(fmt::format(R"("{}": "{}")", axis.name, text));
  }
  stored.lines.clear();
  stored.pad_values.assign(shape.size(), {});
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::optional<std::vector<naive::Line>> lines = lines_of(cuts[d], shape[d], side, axes_of(side, expert));
    if (!lines || !is_inferred(cuts[d], shape[d])) return std::nullopt;
    stored.lines.push_back(std::move(*lines));
  }
  random_.shuffle(entries);  // the mesh orders levels, not the map
  if (!entries.empty()) out.text = fmt::format("{{{}}}", fmt::join(entries, ", "));
  return out;
}

Drawer::Owner Drawer::draw_owner(Index size, Index count) {
  Owner out;
  std::vector<Index> shares(static_cast<std::size_t>(size), count / size);
  std::string text = fmt::format(R"("index": "$1", "count": {})", count);
  bool plain = true;
  if (wishes("owner split", 80, 35)) {
    shares.assign(static_cast<std::size_t>(size), 0);
    for (Index i = 0; i < count; ++i) ++shares[static_cast<std::size_t>(random_.between(0, size - 1))];
    text = fmt::format(R"("index": "$1", "split": [{}])", fmt::join(shares, ", "));
    plain = false;
    see("owner split", 4);
  }
  for (Index c = 0; c < size; ++c) {
    out.first.push_back(static_cast<Index>(out.coordinate.size()));
    out.coordinate.insert(out.coordinate.end(), static_cast<std::size_t>(shares[static_cast<std::size_t>(c)]), c);
  }
  if (wishes("local numbers", 70, 30)) {
    out.local = true;
    text += R"(, "numbering": "local")";
    plain = false;
    see("local numbers", 4);
  }
  out.text = plain && random_.chance(70) ? fmt::format(R"({{"pp": "$1/{}"}})", count)
                                         : fmt::format(R"({{"pp": {{{}}}}})", text);
  return out;
}

/// A dtype for every side; elements are numbers that each of them holds.
void Drawer::draw_dtypes(Rule& rule, Tensor& tensor) {
  const std::vector<Dtype> all = has_hdf5() ? std::vector<Dtype>{Dtype::kF32, Dtype::kF64}
                                            : std::vector<Dtype>{Dtype::kF16, Dtype::kBf16, Dtype::kF32, Dtype::kF64};
  for (std::size_t s = 0; s < kSides; ++s) {
    tensor.sides[s].dtype = random_.one_of(all);
    rule.dtype[s] = std::string(name(tensor.sides[s].dtype));
  }
  tensor.converted = true;
  see("dtype", 4);
}

/// A pattern for one name, which no other rule's tensors match.
std::string Drawer::draw_pattern(const std::string& name, std::size_t number) {
  if (!wishes("patterns", 80, 25)) return name;
  see("patterns", 4);
  return random_.one_of<std::string>({fmt::format("r{}.*", number), fmt::format("{{x,r{0},r{0}y}}.w", number),
                                      fmt::format("r{}.**w", number), fmt::format("re:r{}[.][a-w]", number),
                                      fmt::format("r{}.{{v,*}}", number)});
}

/// A rule for one tensor, or for the tensors of some layers.
void Drawer::draw_tensors(bool placed, bool owned) {
  const std::size_t number = out_.rules.size();
  const bool expert = !owned && wishes("view", 80, 25);
  const bool renamed = wishes("rename", 70, 20);
  Tensor tensor;
  tensor.shape = draw_shape();
  if (wish_ == "scalar" && random_.chance(50)) tensor.shape = {};
  Rule rule;
  if (wishes("dtype", 80, 12)) {
    draw_dtypes(rule, tensor);
  } else {
    const Dtype dtype = draw_dtype();
    for (Stored& stored : tensor.sides) stored.dtype = dtype;
  }
  const bool falls_back = wishes("rule fallback", 80, 10);
  const layout::Fallback fallback = falls_back ? layout::Fallback::kReplicate : layout::Fallback::kError;
  if (falls_back) rule.common["fallback"] = R"("replicate")";
  if (wishes("optional", 60, 8)) rule.common["optional"] = "true";

  Index count = 1;
  for (const SideSpec& side : out_.sides)
    if (const auto pp = find_axis(side.axes, "pp")) count = std::lcm(count, pp->size);
  if (owned) count *= count < 4 ? random_.between(1, 2) : 1;
  // An integer, not a layer number; a list of them: tied copies.
  const bool tied = owned && wishes("owner list", 60, 15);
  const bool fixed = tied || (owned && wishes("owner by number", 60, 25));
  std::vector<Index> numbers = {random_.between(0, count - 1)};
  const std::vector<Index> places = {numbers.front(), random_.between(0, count - 1)};
  if (owned && !fixed && count > 1 && random_.chance(70)) numbers.push_back((numbers.front() + 1) % count);

  std::array<Words, kSides> words;
  std::array<Owner, kSides> owners;
  for (std::size_t s = 0; s < kSides; ++s) {
    const SideSpec& side = out_.sides[s];
    const auto pp = owned ? find_axis(side.axes, "pp") : std::nullopt;
    if (expert && !side.expert.empty()) rule.by_side[s]["view"] = R"("expert")";
    std::vector<layout::Axis> free = free_axes(s, expert);
    if (owned) std::erase_if(free, [](const layout::Axis& axis) { return axis.name == "pp"; });
    std::optional<Words> drawn;
    const bool here = placed && random_.chance(85);  // one side may say `place`, the other `shard`
    for (int i = 0; i < 100 && !drawn; ++i)
      drawn = here ? draw_place(tensor.shape, s, expert, free, fallback, tensor.sides[s])
                   : draw_shard(tensor.shape, s, expert, free, fallback, tensor.sides[s]);
    if (!drawn) return;
    words[s] = std::move(*drawn);
    if (!words[s].text.empty()) rule.by_side[s][words[s].key] = words[s].text;
    if (pp && fixed) {
      std::vector<Index> named = {places.front()};
      if (tied) named.push_back(places.back());
      if (tied && named.front() == named.back()) named.pop_back();
      rule.by_side[s]["owner"] =
          tied ? fmt::format(R"({{"pp": {{"index": [{}], "count": {}}}}})", fmt::join(named, ", "), count)
               : fmt::format(R"({{"pp": "{}/{}"}})", named.front(), count);
    } else if (pp) {
      owners[s] = draw_owner(pp->size, count);
      rule.by_side[s]["owner"] = owners[s].text;
      // Most numbers have no tensor, and the plan says that this is meant.
      if (owners[s].local) rule.common["optional"] = "true";
    }
    rule.match[s] =
        fmt::format("r{}{}.{}", number, renamed ? fmt::format(".side{}", s) : "", owned && !fixed ? "*.w" : "w");
    if (renamed) rule.rename[s] = fmt::format("r{}.side{}.{}", number, s, owned && !fixed ? "$1.w" : "w");
  }
  static const std::map<std::string, int> sections = {{"place", 7},
                                                      {"place from the end", 7},
                                                      {"place chunk", 7},
                                                      {"place strided", 7},
                                                      {"place replicate", 7},
                                                      {"zigzag", 9},
                                                      {"striped", 9},
                                                      {"packed", 9},
                                                      {"packed by name", 9},
                                                      {"pad_value", 9},
                                                      {"several axes", 6},
                                                      {"vars", 2},
                                                      {"packed with padding", 9}};
  for (const Words& side : words)
    for (const std::string& shown : side.shown) {
      const auto section = sections.find(shown);
      see(shown, section == sections.end() ? 5 : section->second);
    }
  for (std::size_t s = 0; s < kSides; ++s) {
    for (const std::string& name : elsewhere_[s])
      if (words[s].text.find(fmt::format(R"("{}")", name)) != std::string::npos) see("axis of one side", 3);
    if (rule.by_side[s].contains("view")) see("view", 4);
    if (rule.by_side[s].contains("owner")) see(tied ? "owner list" : fixed ? "owner by number" : "owner", 4);
    for (Tensor& boundaries : words[s].boundaries) {
      Rule& whole = out_.rules.emplace_back();
      whole.match.fill(boundaries.names[0]);
      add(std::move(boundaries));
    }
  }
  if (renamed) see("rename", 4);
  if (falls_back) see("rule fallback", 4);
  if (rule.common.contains("optional")) see("optional", 4);

  for (const Index k : numbers) {
    Tensor one = tensor;
    for (std::size_t s = 0; s < kSides; ++s) {
      const SideSpec& side = out_.sides[s];
      Stored& stored = one.sides[s];
      const auto named = [&](Index layer) {
        std::string out = rule.match[s];
        if (const std::size_t star = out.find('*'); star != std::string::npos)
          out.replace(star, 1, std::to_string(layer));
        return out;
      };
      one.names[s] = stored.name = named(k);
      stored.present.assign(static_cast<std::size_t>(side.world()), true);
      const auto pp = find_axis(side.axes, "pp");
      if (!owned || !pp) continue;
      std::set<Index> homes;
      if (fixed) {
        homes = {places.front() * pp->size / count};
        if (tied) homes.insert(places.back() * pp->size / count);
      } else {
        homes = {owners[s].coordinate[static_cast<std::size_t>(k)]};
        if (owners[s].local) stored.name = named(k - owners[s].first[static_cast<std::size_t>(*homes.begin())]);
      }
      for (Index position = 0; position < side.world(); ++position)
        stored.present[static_cast<std::size_t>(side.rank_at(position))] =
            homes.contains(coordinate(side.axes, position, "pp"));
    }
    add(std::move(one));
  }
  if (!owned && !renamed) rule.match.fill(draw_pattern(rule.match[0], number));
  out_.rules.push_back(std::move(rule));
}

/// A tensor that every rank holds whole: by a rule without a cut, by no rule, or left out.
void Drawer::draw_whole() {
  const std::size_t number = out_.rules.size();
  Tensor tensor = whole_tensor(out_.sides, fmt::format("whole{}.w", number), draw_dtype(), draw_shape());
  const Index kind = wish_ == "drop" ? 2 : wish_ == "unmatched" ? 1 : random_.between(0, 2);
  tensor.dropped = kind == 2;
  Rule rule;
  rule.match.fill(fmt::format("whole{}.*", number));
  if (kind == 1) {
    out_.replicates_unmatched = true;
    rule.match.fill(fmt::format("nothing{}", number));
    rule.common["optional"] = "true";
    see("unmatched", 2);
    see("optional", 4);
  }
  if (tensor.dropped) {
    rule.common["drop"] = "true";
    rule.common["optional"] = "true";  // the way back has no such tensor
    see("drop", 4);
    see("optional", 4);
  }
  out_.rules.push_back(std::move(rule));
  add(std::move(tensor));
}

}  // namespace reshard::plan_cases
