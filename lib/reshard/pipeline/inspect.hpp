#pragma once
// `reshard inspect`: what is in a checkpoint, found without a plan. The files that are there tell the format and the
// number of ranks; a manifest, or what files of ours record, tells axes and true shapes.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"
#include "reshard/base/file.hpp"
#include "reshard/pipeline/formats.hpp"
#include "reshard/plan/side.hpp"
#include "reshard/planner/catalog.hpp"

namespace reshard::pipeline {

/// Ranks first..last (inclusive) store this shape.
struct ShapeRun {
  Shape shape;
  planner::Index first_rank = 0;
  planner::Index last_rank = 0;

  friend bool operator==(const ShapeRun&, const ShapeRun&) = default;
};

struct InspectedTensor {
  std::string name;          ///< as stored
  Dtype dtype = Dtype::kU8;  ///< of the lowest rank that has it
  std::vector<ShapeRun> stored;
  std::optional<Shape> global_shape;  ///< where the checkpoint records it

  friend bool operator==(const InspectedTensor&, const InspectedTensor&) = default;
};

struct Inspection {
  std::string format;
  planner::Index ranks = 1;
  std::optional<std::vector<std::string>> axes;  ///< "tp=2", where the checkpoint records them
  std::optional<std::string> files;              ///< template; nothing for an indexed set
  std::int64_t bytes = 0;                        ///< of all tensors as stored
  std::vector<InspectedTensor> tensors;          ///< in bytewise name order
  std::vector<std::string> ignored_files;
  std::vector<Warning> warnings;  ///< those of the files; W_DTYPE, W_NOT_TENSOR, W_AXES
};

/// The files of a directory by their names: format, template, and a mesh of as many ranks. Errors: kMissing, kFormat,
/// kUnsupported, as of inspect.
plan::Side side_by_names(const fs::path& directory, const Formats& formats);

/// `path`: a directory with `model.*`, an indexed set or `rank-00000.*` and so on, a finished target, or one file.
/// Reads headers only. Errors: kMissing (nothing there, no checkpoint by name, gaps in rank numbers), kFormat (files of
/// two kinds, a bad manifest), kUnsupported (torch's sharded safetensors), and those of SourceCheckpoint::open.
Inspection inspect(const fs::path& path, const Formats& formats, bool allow_external);

}  // namespace reshard::pipeline
