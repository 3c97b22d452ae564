#include "reshard/plan/level.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"
#include "reshard/plan/packed.hpp"

namespace reshard::plan {
namespace {

using layout::Fallback;
using layout::Index;
using layout::Level;
using layout::Segment;
using layout::SequenceLayout;
using layout::Split;

const std::vector<std::string> kFallbacks = {"error", "replicate", "repeat"};
const std::vector<std::string> kSplits = {"even", "balanced", "chunk"};
const std::vector<std::string> kLayouts = {"contiguous", "zigzag", "striped"};
const std::vector<std::string> kSegmentKeys = {"size", "unit", "fallback"};

class LevelReader {
 public:
  LevelReader(Level& level, const LevelOptions& options, std::string_view side, Faults& faults)
      : level_(level), options_(options), side_(side), faults_(faults) {}

  void run() {
    if (const Node* unit = find("unit")) level_.unit = read_integer(*unit, 1, faults_).value_or(1);
    if (const Node* segments = find("segments")) read_segments(*segments);
    if (const Node* stride = find("stride"))
      level_.stride = read_integer(*stride, 1, faults_, ErrorCode::kStride).value_or(1);
    if (const Node* split = find("split")) read_split(*split);
    if (const Node* fallback = find("fallback"))
      level_.fallback = read_fallback(*fallback, faults_).value_or(level_.fallback);
    read_layout();
    if (const Node* pad = find("pad_to")) level_.pad_to = read_integer(*pad, 1, faults_, ErrorCode::kPad);
    if (const Node* pad = find("pad_rows")) level_.pad_rows = read_integer(*pad, 0, faults_, ErrorCode::kPad);
    check_exclusions();
  }

 private:
  const Node* find(std::string_view key) const {
    const auto found = options_.find(key);
    return found == options_.end() ? nullptr : &found->second;
  }

  void read_segments(const Node& node) {
    if (!expect_list(node, "a list of segment sizes", faults_)) return;
    if (node->array().empty())
      faults_.add(ErrorCode::kSegmentSum, node, "an empty list, expected the size of every fused part");
    for (std::size_t i = 0; i < node->array().size(); ++i)
      if (const auto segment = read_segment(child(node, i))) level_.segments.push_back(*segment);
    try {
      segment_sum(level_.segments);
    } catch (const Error& error) {
      faults_.add(error.issues().front().code, node, error.issues().front().message);
      level_.segments.clear();
    }
  }

  std::optional<Segment> read_segment(const Node& node) {
    Segment segment;
    std::optional<Node> size = node;
    if (node->is_object()) {
      const Fields fields(node, kSegmentKeys, faults_);
      size = fields.require("size", faults_);
      if (const auto unit = fields.find("unit")) segment.unit = read_integer(*unit, 1, faults_);
      if (const auto fallback = fields.find("fallback")) segment.fallback = read_fallback(*fallback, faults_);
    }
    if (!size) return std::nullopt;
    const auto number = read_integer(*size, 1, faults_, ErrorCode::kSegmentSum);
    if (!number) return std::nullopt;
    segment.size = *number;
    return segment;
  }

  void read_split(const Node& node) {
    if (!node->is_array()) {
      if (!node->is_string()) {
        faults_.add(ErrorCode::kSchema, node,
                    fmt::format("found {}, expected one of {}, or a list of shares", describe(*node), join(kSplits)));
      } else if (const auto choice = read_choice(node, kSplits, faults_)) {
        level_.split = static_cast<Split>(*choice);
      }
      return;
    }
    const std::size_t reports_before = faults_.reports();
    std::vector<Index> shares;
    for (std::size_t i = 0; i < node->array().size(); ++i)
      shares.push_back(read_integer(child(node, i), 0, faults_).value_or(0));
    if (faults_.reports() > reports_before) return;
    level_.split = Split::kShares;
    check_shares(node, shares);
    // Over one coordinate there is one share, whatever the other side's numbers are.
    level_.shares = level_.axis_size == 1 ? std::vector<Index>{1} : std::move(shares);
  }

  void check_shares(const Node& node, const std::vector<Index>& shares) {
    Index sum = 0;
    if (std::any_of(shares.begin(), shares.end(),
                    [&](Index share) { return __builtin_add_overflow(sum, share, &sum); })) {
      faults_.add(ErrorCode::kOverflow, node, "the shares add up to more than 63 bits hold");
    } else if (sum == 0) {
      faults_.add(ErrorCode::kSchema, node, "the shares add up to 0, expected one share per coordinate, not all 0");
    } else if (level_.axis_size > 1 && static_cast<Index>(shares.size()) != level_.axis_size) {
      faults_.add(ErrorCode::kOwner, node,
                  fmt::format("{} shares, axis '{}' has {} coordinates in the {}; expected one share per coordinate",
                              shares.size(), level_.axis, level_.axis_size, side_));
    }
  }

  void read_layout() {
    if (const Node* layout = find("layout"))
      if (const auto choice = read_choice(*layout, kLayouts, faults_))
        level_.layout = static_cast<SequenceLayout>(*choice);
    if (const Node* block = find("block")) {
      level_.block = read_integer(*block, 1, faults_).value_or(1);
      if (level_.layout != SequenceLayout::kStriped)
        faults_.add(ErrorCode::kSchema, *block, "belongs to 'layout: striped'");
    }
    const Node* packed = find("packed");
    if (packed != nullptr) {
      level_.packed = read_packed(*packed, faults_);
      if (level_.layout == SequenceLayout::kStriped)
        faults_.add(ErrorCode::kSchema, *packed, "'layout: striped' has no packed form; use 'zigzag' or 'contiguous'");
    }
    if (const Node* padding = find("padding")) {
      level_.packed_padding = read_packed_padding(*padding, faults_).value_or(level_.packed_padding);
      if (packed == nullptr) faults_.add(ErrorCode::kSchema, *padding, "belongs to 'packed'");
    }
    if (const Node* value = find("pad_value"); value != nullptr && packed == nullptr)
      faults_.add(ErrorCode::kSchema, *value, "belongs to 'packed'; what other padding holds is said by 'fill'");
  }

  /// Options that say how a line is cut; an explicit `split: even` says nothing new.
  std::vector<std::string> cutting_options() const {
    std::vector<std::string> out;
    for (const std::string_view key : {"unit", "segments", "stride"})
      if (find(key) != nullptr) out.emplace_back(key);
    if (find("split") != nullptr && level_.split != Split::kEven) out.emplace_back("split");
    return out;
  }

  void check_exclusions() {
    const std::vector<std::string> cutting = cutting_options();
    if (find("segments") != nullptr && find("stride") != nullptr)
      exclude("stride", "'segments'; a stride is that number of equal segments");
    if (find("pad_to") != nullptr && find("pad_rows") != nullptr)
      exclude("pad_rows", "'pad_to'; give the alignment or the number of rows");
    const bool sequence = level_.layout != SequenceLayout::kContiguous;
    if (sequence && !cutting.empty())
      exclude("layout", fmt::format("'{}' on the same axis", fmt::join(cutting, "', '")));
    for (const std::string_view pad : {"pad_to", "pad_rows", "pad_total"}) {
      if (find(pad) == nullptr) continue;
      if (!cutting.empty())
        exclude(pad, fmt::format("'{}' on the same axis '{}'; padding and cutting belong to different levels, as in "
                                 "axes: [tp, gtp]",
                                 fmt::join(cutting, "', '"), level_.axis));
      if (sequence && pad != "pad_total") exclude(pad, fmt::format("'layout' on the same axis '{}'", level_.axis));
    }
  }

  void exclude(std::string_view key, std::string_view what) {
    faults_.add(ErrorCode::kSchema, *find(key), fmt::format("excludes {}", what));
  }

  Level& level_;
  const LevelOptions& options_;
  std::string_view side_;
  Faults& faults_;
};

}  // namespace

const std::vector<std::string>& first_axis_keys() {
  static const std::vector<std::string> keys = {"unit",  "segments", "stride",  "split",     "fallback", "layout",
                                                "block", "packed",   "padding", "pad_value", "pad_total"};
  return keys;
}

const std::vector<std::string>& last_axis_keys() {
  static const std::vector<std::string> keys = {"pad_to", "pad_rows"};
  return keys;
}

bool is_of_whole_dim(std::string_view key) {
  return key == "packed" || key == "padding" || key == "pad_value" || key == "pad_total";
}

void read_level(Level& level, const LevelOptions& options, std::string_view side, Faults& faults) {
  LevelReader(level, options, side, faults).run();
}

std::optional<Fallback> read_fallback(const Node& node, Faults& faults) {
  const auto choice = read_choice(node, kFallbacks, faults);
  return choice ? std::optional(static_cast<Fallback>(*choice)) : std::nullopt;
}

Index segment_sum(const std::vector<Segment>& segments) {
  Index sum = 0;
  for (const Segment& segment : segments) sum = checked_add(sum, segment.size);
  return sum;
}

}  // namespace reshard::plan
