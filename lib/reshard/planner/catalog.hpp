#pragma once
// What a source stores, without files: per tensor name, runs of ranks that store it alike. This is all the planner
// knows of a checkpoint, so that a reshard of thousands of ranks is planned from a page of text.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"
#include "reshard/layout/mesh.hpp"
#include "reshard/layout/tensor_layout.hpp"

namespace reshard::planner {

using layout::Index;

/// Ranks first_rank..last_rank (inclusive) store a tensor with this shape and dtype.
struct StoredRun {
  Index first_rank = 0;
  Index last_rank = 0;
  Shape shape;
  Dtype dtype = Dtype::kU8;
  std::optional<Shape> global_shape;  ///< true shape where the file records it

  friend bool operator==(const StoredRun&, const StoredRun&) = default;
};

/// How the source's manifest says tensors are cut; shared by all that are cut so.
struct RecordedLayout {
  layout::TensorLayout layout;
  std::string text;               ///< the placement as the manifest has it, for messages
  std::vector<std::string> axes;  ///< of size > 1 that cut or place, by name
};

/// A tensor as the source's manifest has it. Where numbers in names are local, several share one stored name, each on
/// ranks of its own.
struct RecordedTensor {
  std::string name;        ///< identity: with global numbers
  std::size_t layout = 0;  ///< index into SourceCatalog::recorded_layouts

  friend bool operator==(const RecordedTensor&, const RecordedTensor&) = default;
};

struct SourceTensor {
  std::string name;               ///< as stored
  std::vector<StoredRun> stored;  ///< ascending; ranks in no run do not store it
  /// Set where a file has something of this name that is no tensor: an error where a rule would move it.
  std::shared_ptr<const Issue> refusal;
  std::vector<RecordedTensor> recorded = {};  ///< empty: the source has no manifest
};

struct SourceCatalog {
  Index ranks = 1;
  std::vector<SourceTensor> tensors;  ///< in bytewise name order
  std::vector<RecordedLayout> recorded_layouts = {};
};

}  // namespace reshard::planner
