#pragma once
// Rules meet tensors: every tensor of the source finds its rule, its true shape and its layout on both sides. All that
// a plan can get wrong about a checkpoint is found here, before a byte is read (plan format section 11, second table).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"
#include "reshard/layout/tensor_layout.hpp"
#include "reshard/plan/plan.hpp"
#include "reshard/planner/catalog.hpp"

namespace reshard::planner {

/// Coordinates `indices` (ascending) of an axis of size `count` have the tensor. Of a rule's numbers, shares and
/// numbering only this is left: a plan reads it as {index: indices, count: count}, and tensors of one pipeline stage or
/// expert rank have one placement.
struct BoundOwner {
  std::string axis;
  std::vector<Index> indices;
  Index count = 0;

  friend bool operator==(const BoundOwner&, const BoundOwner&) = default;
};

/// A target placement with every default resolved and numbers for captures: what the manifest writes down.
struct BoundPlacement {
  std::string view;                  ///< empty: `axes`
  std::vector<layout::DimCut> dims;  ///< one per dim of the tensor (group members stand one by one)
  std::vector<BoundOwner> owners;

  friend bool operator==(const BoundPlacement&, const BoundPlacement&) = default;
};

/// One way to go from source to target, shared by all tensors that have it.
struct LayoutPair {
  layout::TensorLayout source;
  layout::TensorLayout target;
  BoundPlacement target_placement;
};

inline constexpr std::size_t kNoRule = static_cast<std::size_t>(-1);

struct BoundTensor {
  std::string source_name;        ///< identity: with global numbers
  std::string source_local_name;  ///< in the source's files; empty where that is source_name
  std::string target_name;
  std::string target_local_name;  ///< in the target's files; empty where that is target_name
  Dtype source_dtype = Dtype::kU8;
  Dtype target_dtype = Dtype::kU8;
  std::size_t rule = kNoRule;  ///< kNoRule: `unmatched: replicate`
  std::size_t layout = 0;      ///< index into BoundPlan::layouts

  const std::string& source_stored_name() const { return source_local_name.empty() ? source_name : source_local_name; }
  const std::string& target_stored_name() const { return target_local_name.empty() ? target_name : target_local_name; }
};

struct BoundPlan {
  std::vector<BoundTensor> tensors;   ///< in bytewise order of target_name
  std::vector<LayoutPair> layouts;    ///< distinct ones, in order of first use
  std::vector<std::string> dropped;   ///< source tensors left out: by `drop`, or by `unmatched: drop`
  std::size_t dropped_unmatched = 0;  ///< how many of them no rule matched
  std::size_t unused_optional_rules = 0;
  std::vector<Warning> warnings;  ///< W_FALLBACK, W_AXIS_IDLE, W_NARROWING
};

/// The numbers of an int32 or int64 tensor of the source (cu_seqlens), whole.
using TensorNumbers = std::function<std::vector<Index>(const SourceTensor&)>;

/// Errors (all that are found, exit 4): kRuleUnused, kTensorUnmatched, kDimRange, kDimDup, kIndivisible and the other
/// codes of layout/cut.hpp, kOwner, kGroupIncomplete, kMemberSize, kUnitSplit, kShape, kDtype, kRenameCollision,
/// kMissing, refusals of the catalog.
BoundPlan bind(const plan::ParallelPlan& plan, const SourceCatalog& catalog, const TensorNumbers& numbers);

}  // namespace reshard::planner
