#pragma once
// Members of groups that have one entry per block of k elements, counted element by element.

#include <optional>
#include <vector>

#include "support/naive_oracle.hpp"

namespace reshard::naive {

/// The block of every element of a dim; numbering restarts in every segment (none: through the dim).
std::vector<Index> number_blocks(Index length, Index divisor, const std::vector<Index>& segments);

/// A line in blocks; nothing where a block is not held whole. Padding fills up a short block, then makes blocks of its
/// own.
std::optional<Line> to_blocks(const Line& line, const std::vector<Index>& number, Index divisor);

}  // namespace reshard::naive
