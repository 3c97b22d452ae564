#pragma once
// How the axes of a mesh cut one dim: the rules of plan format sections 5, 6 and 9 as integer algebra.
//
// A dim of true length D starts as the line of global indices 0 .. D-1. Each level, major to minor, keeps its
// coordinate's part of the current line and hands it on. What is left is an ordered list of runs; padding is stored but
// has no global index. A rank's shard is the product over its dims.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/layout/blocks.hpp"
#include "reshard/layout/dim_shard.hpp"
#include "reshard/layout/mesh.hpp"

namespace reshard::layout {

enum class Split { kEven, kBalanced, kChunk, kShares };
enum class Fallback { kError, kReplicate, kRepeat };
enum class SequenceLayout { kContiguous, kZigzag, kStriped };
enum class Fill { kZero, kLast };
enum class PackedPadding { kTemporary, kForbid };

/// A fused part of a dim, cut on its own. What it does not say is taken from its level.
struct Segment {
  Index size = 0;
  std::optional<Index> unit;
  std::optional<Fallback> fallback;

  friend bool operator==(const Segment&, const Segment&) = default;
};

/// Boundaries of packed sequences. A tensor's name stands where the plan gave one, until its numbers are filled in.
struct PackedSequences {
  std::vector<Index> cu_seqlens;
  std::vector<Index> cu_seqlens_padded;  ///< empty: none given
  std::string cu_seqlens_tensor;         ///< empty: inline
  std::string cu_seqlens_padded_tensor;

  friend bool operator==(const PackedSequences&, const PackedSequences&) = default;
};

/// One axis on one dim.
struct Level {
  std::string axis;
  Index axis_size = 1;  ///< on this side's mesh; 1 for an axis this side does not have
  Index unit = 1;
  std::vector<Segment> segments;  ///< empty: one part
  Index stride = 1;
  Split split = Split::kEven;
  std::vector<Index> shares;  ///< for Split::kShares
  Fallback fallback = Fallback::kError;
  SequenceLayout layout = SequenceLayout::kContiguous;
  Index block = 1;
  std::optional<PackedSequences> packed;
  PackedPadding packed_padding = PackedPadding::kTemporary;
  std::optional<Index> pad_to;
  std::optional<Index> pad_rows;

  friend bool operator==(const Level&, const Level&) = default;
};

/// All that a plan says of one dim on one side.
struct DimCut {
  std::vector<Level> levels;  ///< major to minor; empty: whole on every rank
  std::optional<Index> size;  ///< true size, when nothing else tells
  std::optional<Index> pad_total;
  Fill fill = Fill::kZero;
  std::optional<double> pad_value;  ///< of temporary packed padding

  friend bool operator==(const DimCut&, const DimCut&) = default;
};

/// The shard of one coordinate per level. `length` is the true size. Cost O(runs).
/// Errors: kIndivisible, kEmptyShard, kSegmentSum, kStride, kSeqLayout, kPad, kRepeat, kOwner (shares), kSchema,
/// kOverflow, kUnsupported (more runs than memory is given); the message names the level's axis and the numbers, the
/// caller adds tensor and dim. Fallback::kReplicate is not applied here: see resolve_fallbacks.
DimShard cut_dim(const DimCut& cut, Index length, std::span<const Index> coordinates);

/// The shards of all coordinates at once, row-major over the levels (the last level fastest). Cost O(runs of all
/// shards). Errors: those of cut_dim.
std::vector<DimShard> cut_dim_everywhere(const DimCut& cut, Index length);

/// Why a dim cannot be cut. The message names axis and numbers.
struct Refusal {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  bool may_fall_back = false;  ///< kIndivisible or kEmptyShard where the plan said `fallback: replicate`
};

/// Options that exclude each other or are out of range, whatever the length: what a plan can be told without a
/// checkpoint.
std::optional<Refusal> option_refusal(const DimCut& cut);

/// Decides `fallback: replicate` for a dim of true size `length`: a level that asks for it and cannot cut is replaced
/// in `cut` by one of axis size 1, and its axis appended to `fallen_back`. Returns the first fault that remains;
/// afterwards, without one, cut_dim does not throw. Only lengths are looked at: O(distinct lengths x coordinates) per
/// level. The sizes that a fault names as legal cut none of `blocks`.
std::optional<Refusal> resolve_fallbacks(DimCut& cut, Index length, std::vector<std::string>& fallen_back,
                                         std::span<const BlockNumbering> blocks = {});

/// Stored lengths of all coordinates, row-major over the levels, of a cut that resolve_fallbacks accepts.
/// O(coordinates).
std::vector<Index> stored_lengths(const DimCut& cut, Index length);

}  // namespace reshard::layout
