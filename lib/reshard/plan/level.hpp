#pragma once
// One axis on one dim: the options of a level, from the dim's map or from the long form `{axis: cp, layout: zigzag}`.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/layout/cut.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {

/// Options by key, with the place each was given at.
using LevelOptions = std::map<std::string, Node, std::less<>>;

/// Keys of a dim's map that belong to its first axis, and those that belong to its last.
const std::vector<std::string>& first_axis_keys();
const std::vector<std::string>& last_axis_keys();
/// Keys of first_axis_keys that a dim has once, so that a level further in cannot carry them.
bool is_of_whole_dim(std::string_view key);

/// Reads `options` into a level whose axis and size (on `side`) are set. Reports kSchema (kinds, options that exclude
/// each other), kSegmentSum, kStride, kPad, kOwner (shares), kSeqLayout. What belongs to the dim (`pad_total`,
/// `pad_value`) is read by read_dim.
void read_level(layout::Level& level, const LevelOptions& options, std::string_view side, Faults& faults);

/// `error`, `replicate`, `repeat`.
std::optional<layout::Fallback> read_fallback(const Node& node, Faults& faults);

/// The sum of segments; kOverflow where it is beyond 63 bits.
layout::Index segment_sum(const std::vector<layout::Segment>& segments);

}  // namespace reshard::plan
