#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"
#include "reshard/layout/axis_cut.hpp"
#include "reshard/layout/group.hpp"
#include "reshard/layout/level_in_blocks.hpp"
#include "reshard/layout/member_layout.hpp"

namespace reshard::layout {
namespace {

constexpr Index kMaxWidths = 256;  // of padded parts in blocks that are tried

class CutInBlocks {
 public:
  /// `cut`: of the dim in elements, without a fallback left to decide. `stored`: blocks on the lowest rank.
  CutInBlocks(const DimCut& cut, Index length, const BlockNumbering& blocks, Index divisor, Index stored)
      : cut_(cut), length_(length), blocks_(blocks), divisor_(divisor), stored_(stored) {}

  /// The cut in blocks that stores what `cut` stores; nothing where there is none.
  std::optional<DimCut> find() {
    out_.size = blocks_.count();
    out_.fill = cut_.fill;
    out_.pad_value = cut_.pad_value;
    if (!cut_.pad_total)
      return extend(0, {{Line(length_), Line(blocks_.count())}}) ? std::optional(out_) : std::nullopt;
    const Index padded = padded_to(length_, checked_mul(*cut_.pad_total, first_size()));
    for (const Index width : widths(0, padded / first_size())) {
      out_.pad_total = std::max(width, Index{1});
      BlockedLine line{Line(length_), Line(blocks_.count())};
      append_padding(line.elements, padded - length_);
      append_padding(line.blocks,
                     padded_to(blocks_.count(), checked_mul(*out_.pad_total, first_size())) - blocks_.count());
      if (extend(0, {std::move(line)})) return out_;
    }
    return std::nullopt;
  }

 private:
  Index first_size() const { return cut_.levels.empty() ? 1 : cut_.levels.front().axis_size; }

  static Index padded_to(Index length, Index align) { return checked_mul(ceil_div(length, align), align); }

  // How many blocks the w padded elements of a coordinate of level i may be: ceil(w / k), or as many more as the axes
  // behind it need, each for its own rounding up. 8 elements over 3 are 3, 3 and 2; in blocks of 2 they are 2, 2 and 1.
  std::vector<Index> widths(std::size_t i, Index elements) const {
    Index behind = 1;
    for (std::size_t j = i + 1; j < cut_.levels.size(); ++j) behind = checked_mul(behind, cut_.levels[j].axis_size);
    std::vector<Index> out = {ceil_div(elements, divisor_)};
    const Index most = std::min(checked_mul(behind, stored_), out.front() + kMaxWidths);
    for (Index width = most; behind > 1 && width > out.front(); --width) out.push_back(width);
    return out;
  }

  void append_padding(Line& line, Index length) const {
    line.append(Pad{0, length, cut_.fill == Fill::kLast ? line.last_element() : std::nullopt, false});
  }

  // Finds levels of blocks for level i and those behind it; `lines`: all that reach level i.
  bool extend(std::size_t i, const std::vector<BlockedLine>& lines) {
    if (i == cut_.levels.size()) {
      return std::all_of(lines.begin(), lines.end(), [&](const BlockedLine& line) {
        return blocks_.to_blocks(line.elements.shard()) == line.blocks.shard();
      });
    }
    const AxisCut axis(std::span<const Level>(cut_.levels).subspan(i), cut_.fill);
    const std::vector<Index> wide = widths(i, axis.part_length(lines.front().elements.length(), 0));
    for (const Level& way : levels_in_blocks(cut_.levels[i], lines, blocks_, divisor_, wide)) {
      const std::optional<std::vector<BlockedLine>> next = taken_alike(i, way, lines);
      if (!next) continue;
      out_.levels.push_back(way);
      if (extend(i + 1, *next)) return true;
      out_.levels.pop_back();
    }
    return false;
  }

  // The parts of all lines where `way` takes the blocks of what level i takes. How much of them is padding is not
  // compared: a level behind may add to it.
  std::optional<std::vector<BlockedLine>> taken_alike(std::size_t i, const Level& way,
                                                      const std::vector<BlockedLine>& lines) const {
    std::vector<Level> ways = {way};
    for (std::size_t j = i + 1; j < cut_.levels.size(); ++j)
      ways.push_back(plain_level_in_blocks(cut_.levels[j], divisor_));
    const AxisCut elements(std::span<const Level>(cut_.levels).subspan(i), cut_.fill);
    const AxisCut in_blocks(ways, cut_.fill);
    if (in_blocks.option_refusal()) return std::nullopt;
    std::vector<BlockedLine> out;
    for (const BlockedLine& line : lines) {
      if (in_blocks.refusal(line.blocks.length())) return std::nullopt;
      for (Index c = 0; c < elements.size(); ++c) {
        out.push_back({elements.take(line.elements, c), in_blocks.take(line.blocks, c)});
        if (blocks_.to_blocks(out.back().elements.shard()).runs != out.back().blocks.shard().runs) return std::nullopt;
      }
    }
    return out;
  }

  const DimCut& cut_;
  Index length_;
  const BlockNumbering& blocks_;
  Index divisor_;
  Index stored_;
  DimCut out_;
};

// Why no cut of a single tensor stores these blocks, and what would do.
std::string no_single_cut(const DimCut& cut, Index divisor) {
  for (const Level& level : cut.levels)
    if (level.packed && level.layout == SequenceLayout::kZigzag && level.axis_size > 1)
      return fmt::format(
          "axis '{}' deals out chunks of packed sequences that are no whole number of blocks; make every sequence a "
          "multiple of 2 x {} x {} = {}, or leave this dim whole",
          level.axis, level.axis_size, divisor, 2 * level.axis_size * divisor);
  for (const Level& level : cut.levels)
    if (level.pad_rows && level.axis_size > 1)
      return fmt::format(
          "axis '{}' pads lines so that they store different numbers of blocks; give it `pad_to`, a multiple of {}, in "
          "place of `pad_rows`, or segments that are multiples of {}",
          level.axis, divisor, divisor);
  return fmt::format(
      "equal pieces of fused parts that are no whole number of blocks hold different numbers of them; make the "
      "segments "
      "multiples of {}, or leave this dim whole",
      divisor);
}

}  // namespace

std::vector<DimCut> standalone_cut(const GroupMember& member, const GroupShape::Member& member_shape,
                                   const GroupShape& shape, const GroupCut& cut, const Mesh& mesh) {
  std::vector<DimCut> out;
  for (std::size_t d = 0; d < member.dims.size(); ++d) {
    const MemberDim& token = member.dims[d];
    if (token.name.empty() || token.divisor == 1) {
      out.push_back(token.name.empty() ? DimCut{} : cut.of(token.name));
      continue;
    }
    const GroupShape::Dim& dim = shape.of(token.name);
    DimCut resolved = cut.of(token.name);
    std::vector<std::string> fallen_back;
    if (auto refused = resolve_fallbacks(resolved, dim.size, fallen_back))
      throw Error(Issue{refused->code, "", kNoTensor, fmt::format("dim '{}': {}", dim.name, refused->message)});
    const bool restarts = member_shape.restarts[d];
    const DimLayout expected = member_dim(lay_out_dim(resolved, dim.size, mesh), token.divisor, dim, restarts);
    const BlockNumbering blocks = numbering(token.divisor, dim, restarts);
    std::optional<DimCut> said =
        CutInBlocks(resolved, dim.size, blocks, token.divisor, expected.parts.front().stored_length).find();
    if (!said || lay_out_dim(*said, blocks.count(), mesh) != expected)
      throw Error(Issue{ErrorCode::kUnsupported, "", kNoTensor,
                        fmt::format("dim '{}' of member '{}': its blocks of {} have no cut of their own, which the "
                                    "manifest would need: {}",
                                    dim.name, member.name, token.divisor, no_single_cut(resolved, token.divisor))});
    out.push_back(std::move(*said));
  }
  return out;
}

}  // namespace reshard::layout
