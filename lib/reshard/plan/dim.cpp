#include "reshard/plan/dim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/plan/level.hpp"

namespace reshard::plan {
namespace {

using layout::DimCut;
using layout::Fill;
using layout::Index;
using layout::Level;

const std::vector<std::string> kFills = {"zero", "last"};
constexpr std::string_view kEntryForm =
    "an axis name, a list of axes from major to minor, or a map, as in {axes: tp, unit: 128}";

std::vector<std::string> dim_keys() {
  std::vector<std::string> keys = {"axes"};
  keys.insert(keys.end(), first_axis_keys().begin(), first_axis_keys().end());
  keys.insert(keys.end(), last_axis_keys().begin(), last_axis_keys().end());
  keys.insert(keys.end(), {"fill", "size"});
  return keys;
}

std::vector<std::string> long_form_keys() {
  std::vector<std::string> keys = {"axis"};
  keys.insert(keys.end(), first_axis_keys().begin(), first_axis_keys().end());
  keys.insert(keys.end(), last_axis_keys().begin(), last_axis_keys().end());
  return keys;
}

/// An axis as written, with the options that stand beside its name.
struct WrittenLevel {
  std::string axis;
  Node at;
  LevelOptions options;
};

class DimReader {
 public:
  DimReader(const AxisScope& scope, Faults& faults) : scope_(scope), faults_(faults) {}

  DimCut read(const Node& entry) {
    if (entry->is_object()) return read_map(entry);
    if (entry->is_string() || entry->is_array()) {
      read_axes(entry);
      return finish();
    }
    faults_.add(ErrorCode::kSchema, entry, fmt::format("found {}, expected {}", describe(*entry), kEntryForm));
    return {};
  }

 private:
  DimCut read_map(const Node& entry) {
    static const std::vector<std::string> keys = dim_keys();
    const Fields fields(entry, keys, faults_);
    if (const auto axes = fields.find("axes")) {
      read_axes(*axes);
    } else if (!fields.find("size") && !fields.find("pad_total")) {
      faults_.add(ErrorCode::kSchema, entry, "the key 'axes' is missing");
      return {};
    }
    for (const std::string& key : first_axis_keys()) attach(fields, key, true);
    for (const std::string& key : last_axis_keys()) attach(fields, key, false);
    if (const auto size = fields.find("size")) cut_.size = read_integer(*size, 0, faults_);
    if (const auto fill = fields.find("fill"))
      if (const auto choice = read_choice(*fill, kFills, faults_)) cut_.fill = static_cast<Fill>(*choice);
    return finish();
  }

  void read_axes(const Node& node) {
    if (node->is_string()) {
      add_axis(node, {});
    } else if (expect_list(node, "an axis name or a list of axes from major to minor", faults_)) {
      for (std::size_t i = 0; i < node->array().size(); ++i) read_axis(child(node, i));
    }
  }

  void read_axis(const Node& node) {
    if (!node->is_object()) {
      add_axis(node, {});
      return;
    }
    static const std::vector<std::string> keys = long_form_keys();
    const Fields fields(node, keys, faults_);
    LevelOptions options;
    for (const Value::Member& member : node->object()) {
      if (member.key == "axis") continue;
      const Node option = child(node, member);
      if (is_of_whole_dim(member.key) && !written_.empty()) {
        faults_.add(ErrorCode::kSchema, option, "belongs to the first axis of the dim");
      } else {
        options.emplace(member.key, option);
      }
    }
    if (const auto axis = fields.require("axis", faults_)) add_axis(*axis, std::move(options));
  }

  void add_axis(const Node& node, LevelOptions options) {
    if (const auto name = read_string(node, faults_)) written_.push_back({*name, node, std::move(options)});
  }

  /// Gives an option of the dim's map to its first or last axis.
  void attach(const Fields& fields, const std::string& key, bool first) {
    const auto option = fields.find(key);
    if (!option) return;
    if (written_.empty()) {
      if (key == "pad_total") {  // of the dim, whether it is cut or not
        cut_.pad_total = read_integer(*option, 1, faults_, ErrorCode::kPad);
      } else {
        faults_.add(ErrorCode::kSchema, *option, "belongs to an axis; give the dim 'axes'");
      }
      return;
    }
    WrittenLevel& level = first ? written_.front() : written_.back();
    if (!level.options.emplace(key, *option).second)
      faults_.add(ErrorCode::kSchema, *option,
                  fmt::format("is given twice for axis '{}': here and beside its name", level.axis));
  }

  DimCut finish() {
    for (const WrittenLevel& written : written_) {
      Level level;
      level.axis = written.axis;
      level.axis_size = scope_.size_of(written.axis, written.at, faults_);
      level.fallback = scope_.fallback;
      read_level(level, written.options, scope_.side, faults_);
      if (const auto pad = written.options.find("pad_total"); pad != written.options.end())
        cut_.pad_total = read_integer(pad->second, 1, faults_, ErrorCode::kPad);
      if (const auto value = written.options.find("pad_value"); value != written.options.end())
        read_pad_value(value->second);
      cut_.levels.push_back(std::move(level));
    }
    if (!cut_.levels.empty()) check_size();
    return std::move(cut_);
  }

  void read_pad_value(const Node& node) {
    constexpr Index kExact = Index{1} << 53;
    if (node->is_float()) {
      cut_.pad_value = node->floating().value;
    } else if (!node->is_integer()) {
      faults_.add(ErrorCode::kSchema, node, fmt::format("found {}, expected a number", describe(*node)));
    } else if (node->integer() < -kExact || node->integer() > kExact) {
      faults_.add(ErrorCode::kDtype, node,
                  fmt::format("found {}, expected a number within -2^53 .. 2^53", node->integer()));
    } else {
      cut_.pad_value = static_cast<double>(node->integer());
    }
  }

  /// `size` against what the first axis says of the whole dim.
  void check_size() {
    const WrittenLevel& written = written_.front();
    const Level& level = cut_.levels.front();
    if (!cut_.size) return;
    if (const Index sum = segment_sum(level.segments); sum > 0 && sum != *cut_.size)
      faults_.add(ErrorCode::kSegmentSum, written.options.at("segments"),
                  fmt::format("the segments add up to {}, 'size' is {}", sum, *cut_.size));
    if (!level.packed) return;
    const std::vector<Index>& physical =
        level.packed->cu_seqlens_padded.empty() ? level.packed->cu_seqlens : level.packed->cu_seqlens_padded;
    const bool known = level.packed->cu_seqlens_padded_tensor.empty() && !physical.empty();
    if (known && physical.back() != *cut_.size)
      faults_.add(ErrorCode::kSeqLayout, written.options.at("packed"),
                  fmt::format("the sequences end at {}, 'size' is {}", physical.back(), *cut_.size));
  }

  const AxisScope& scope_;
  Faults& faults_;
  std::vector<WrittenLevel> written_;
  DimCut cut_;
};

bool says_partial(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return lower.starts_with("partial") || lower.starts_with("_partial");
}

}  // namespace

Index AxisScope::size_of(const std::string& axis, const Node& at, Faults& faults) const {
  if (const auto size = here->axis_size(axis)) return *size;
  if (other->axis_size(axis)) return 1;
  if (says_partial(axis)) {
    faults.add(ErrorCode::kPartial, at,
               fmt::format("'{}': partial sums are not stored values; reduce them before saving", axis));
    return 1;
  }
  if (!all_read) return 1;
  std::vector<std::string> known;
  for (const layout::Mesh* mesh : {here, other})
    for (const layout::Axis& candidate : mesh->axes())
      if (std::find(known.begin(), known.end(), candidate.name) == known.end()) known.push_back(candidate.name);
  std::sort(known.begin(), known.end());  // the same words for both sides
  const std::string where = view.empty() ? "on either side" : fmt::format("in view '{}' on either side", view);
  if (known.empty()) {
    faults.add(
        ErrorCode::kAxisUnknown, at,
        fmt::format("no axis '{}' {}: neither side has axes; a full checkpoint that a model's rules apply to says "
                    "axes: [{}=1]",
                    axis, where, axis));
  } else {
    faults.add(
        ErrorCode::kAxisUnknown, at,
        fmt::format("no axis '{}' {}; the nearest is '{}'; axes: {}", axis, where, *nearest(axis, known), join(known)));
  }
  return 1;
}

DimCut read_dim(const Node& entry, const AxisScope& scope, Faults& faults) {
  return DimReader(scope, faults).read(entry);
}

}  // namespace reshard::plan
