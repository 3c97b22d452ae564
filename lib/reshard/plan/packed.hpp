#pragma once
// `packed` of a sequence layout (section 9): the boundaries of sequences that stand end to end on a dim.

#include <optional>

#include "reshard/layout/cut.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {

/// Inline lists are checked: kSeqLayout where one has under two entries, does not start at 0 or decreases, or where the
/// padded list has another length or a sequence that is shorter than the actual one.
std::optional<layout::PackedSequences> read_packed(const Node& node, Faults& faults);

std::optional<layout::PackedPadding> read_packed_padding(const Node& node, Faults& faults);

}  // namespace reshard::plan
