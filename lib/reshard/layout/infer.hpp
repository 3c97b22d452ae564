#pragma once
// The true length of a dim from what its shards store: the inverse of cutting (plan format section 5, layouts reference
// section 6).

#include <optional>
#include <span>

#include "reshard/layout/candidate_lengths.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"

namespace reshard::layout {

/// The true length that `cut` stores as `stored` (by rank, kAbsent where a rank has nothing). Where several lengths
/// fit, `size`, the sum of `segments`, the packed total or `recorded` (a length that the checkpoint records) decides; a
/// hint that does not fit is refused. Cost O(ranks + coordinates); lengths that fit are looked for among a bounded
/// number of candidates. Errors: kShape, kSegmentSum, kPad (several fit and nothing tells; stored minus padding is not
/// positive), kSeqLayout (packed metadata wrong, or of another
/// total than the rest), kMissing, and option faults of cut_dim.
Index infer_length(const DimCut& cut, const Mesh& mesh, std::span<const Index> stored, std::optional<Index> recorded);

}  // namespace reshard::layout
