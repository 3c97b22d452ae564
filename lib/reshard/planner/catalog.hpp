#pragma once
// What a source stores, without files: per tensor name, runs of ranks that store it alike. This is all the planner knows of
// a checkpoint, so that a reshard of thousands of ranks is planned from a page of text.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"
#include "reshard/layout/mesh.hpp"

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

struct SourceTensor {
  std::string name;  ///< as stored
  std::vector<StoredRun> stored;  ///< ascending; ranks in no run do not store it
  /// Set where a file has something of this name that is no tensor: an error where a rule would move it.
  std::optional<Issue> refusal;
};

struct SourceCatalog {
  Index ranks = 1;
  std::vector<SourceTensor> tensors;  ///< in bytewise name order
};

}  // namespace reshard::planner
