#pragma once
// Which ranks hold the same elements of a tensor, and where the bytes of one rank's shard lie in the whole.
//
// The ranges of a dim that the same parts hold (held.hpp) are one set of that dim; elements whose dims lie in the same
// sets are held by the same ranks. A rank's shard is made of a few such sets, mostly of one:
//
//   [8] on [dp=2, tp=2], cut by tp: set {0} holds 0..3, on ranks 0 and 2; set {1} holds 4..7, on ranks 1 and 3
//   segments [4, 2], the second repeated: sets {0}: 0..1 on rank 0, {1}: 2..3 on rank 1, {2}: 4..5 on both
//
// The digest of a set, taken from each of its ranks, tells copies that differ, and one digest of each set makes that
// of the tensor.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "reshard/layout/copy_box.hpp"
#include "reshard/layout/tensor_layout.hpp"

namespace reshard::planner {

using layout::Index;

class HolderSets {
 public:
  /// A set's number in every dim; empty for a scalar.
  using Set = std::vector<std::int32_t>;
  /// A box of bytes: its source is the piece that was asked for, its logical place the whole tensor (its target is
  /// without meaning). `set`: position in sets_of.
  using Visit = std::function<void(const layout::CopyBox& box, std::size_t set)>;

  explicit HolderSets(const layout::TensorLayout& layout);

  /// The sets that the shard of a rank is made of; none where it is padding only, or empty. The rank has the tensor.
  std::vector<Set> sets_of(Index rank) const;
  /// Visits, in boxes, the true elements among stored bytes [first, first + bytes) of the rank's shard, which may begin
  /// and end inside an element. Padding is left out.
  void visit_boxes(Index rank, std::int64_t element_bytes, Index first, Index bytes, const Visit& visit) const;

 private:
  /// Part of a shard along one dim; `set` is a position in Part::sets.
  struct SetRun {
    layout::Run run;
    std::size_t set = 0;
  };
  struct Part {
    std::vector<SetRun> runs;        // by stored position
    std::vector<std::int32_t> sets;  // ascending
    Index stored_length = 0;
  };
  struct Dim {
    Index length = 0;
    std::vector<Part> parts;
    std::vector<std::int32_t> part_of_rank;
  };
  class Walk;

  static Dim dim_of(const layout::DimLayout& dim, Index length);

  std::vector<Dim> dims_;
};

}  // namespace reshard::planner
