#pragma once
// What a rule says of the dims of one tensor: keys as positions, packed sequences with their numbers, and, of a target,
// the cut in its final form, as the manifest writes it down.

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"
#include "reshard/layout/tensor_layout.hpp"
#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding.hpp"

namespace reshard::planner {

/// One cut per dim of a tensor with `dims` dims. Keys of `place` for one dim join, their levels in the order of `mesh`
/// (section 7). Errors: kDimRange, kDimDup (keys of `shard` for one dim), all of them.
std::vector<layout::DimCut> cuts_by_position(const std::vector<plan::DimRule>& shard, std::size_t dims,
                                             const layout::Mesh& mesh);

/// Reads cu_seqlens tensors, each once.
class PackedNumbers {
 public:
  PackedNumbers(const SourceCatalog& catalog, const TensorNumbers& numbers) : catalog_(&catalog), numbers_(&numbers) {}

  /// Puts numbers in place of tensor names. Errors: kMissing (no such tensor), kSeqLayout (no vector of int32 or
  /// int64), those of the callback.
  void fill(layout::DimCut& cut);

 private:
  const std::vector<Index>& read(const std::string& name);

  const SourceCatalog* catalog_;
  const TensorNumbers* numbers_;
  std::map<std::string, std::vector<Index>> known_;
};

/// A cut that `length` accepts, without what has no effect: axes that fell back, levels of size 1 (their axis may be
/// none of the target's mesh), `size` (it is the tensor's). It lays a dim of this length out as `cut` does.
layout::DimCut final_cut(const layout::DimCut& cut, Index length, const layout::Mesh& mesh);

/// Whether some part of the dim has fewer units than the first axis has coordinates and is therefore repeated. The cut
/// has no `fallback: replicate` left to decide.
bool repeats(const layout::DimCut& cut, Index length);

}  // namespace reshard::planner
