#pragma once
// Sequence layouts of context parallelism (plan format section 9): which parts of a line a coordinate of cp holds. The
// rules are Megatron-LM's (megatron/core/context_parallel/layout.py) and, for blocks dealt round-robin, Transformer
// Engine's striped order.
//
// Packed sequences lie end to end; zigzag is applied to each on its own. A sequence of physical length L is padded to
// M = ceil(L / 2n) * 2n; the last sequence alone also takes what the inner axis needs. Temporary padding is stored
// where it falls, so it may lie in the middle of a coordinate's stored line.

#include <optional>
#include <vector>

#include "reshard/layout/cut.hpp"
#include "reshard/layout/line.hpp"

namespace reshard::layout {

/// Chunks c and 2n-1-c, in that order, of width length / (2n). `line.length()` is a multiple of 2n, n > 1.
Line take_zigzag(const Line& line, Index n, Index c);

/// Blocks of `block` positions dealt round-robin: position i where floor(i / block) mod n = c. `line.length()` is a
/// multiple of n * block.
Line take_striped(const Line& line, Index n, Index block, Index c);

/// Why these boundaries are none for a line of `length` (kSeqLayout, kOverflow beyond int32), whatever the layout.
std::optional<Refusal> packed_refusal(const PackedSequences& packed, Index length);

/// Padded length of every sequence over n > 1 coordinates whose stream an inner axis cuts in `inner_multiple` equal
/// pieces. Example: physical lengths 3, 5, n = 2, inner_multiple = 4: 4, 12 (the stream of 6 grows by 2 to 8, so the
/// last sequence by 4).
std::vector<Index> padded_lengths(const PackedSequences& packed, Index n, Index inner_multiple);

/// kSeqLayout where PackedPadding::kForbid meets a sequence that needs padding, kOverflow where padded positions leave
/// int32.
std::optional<Refusal> packed_zigzag_refusal(const PackedSequences& packed, PackedPadding padding, Index n,
                                             Index inner_multiple);

/// Zigzag of every sequence on its own, n > 1.
Line take_packed_zigzag(const Line& line, const PackedSequences& packed, Index n, Index inner_multiple, Index c);

}  // namespace reshard::layout
