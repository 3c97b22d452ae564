#pragma once
// The files of a target: which tensors each holds, what they are called, how they are laid out.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reshard/format/format.hpp"
#include "reshard/pipeline/formats.hpp"
#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding.hpp"
#include "reshard/planner/target_map.hpp"

namespace reshard::pipeline {

/// Files with the same tensors and stored shapes.
struct FileClass {
  std::vector<std::size_t> tensors;  ///< numbers in BoundPlan::tensors, in order
  format::NewFile content;
  format::FileLayout layout;  ///< offsets as in `tensors`

  /// [begin, end) of every tensor that has bytes, in order. All else in the file is written when it is created.
  std::vector<std::pair<std::int64_t, std::int64_t>> tensor_ranges() const;
  /// What lies before, between and behind them.
  std::vector<std::pair<std::int64_t, std::int64_t>> header_ranges() const;
};

struct TargetFile {
  std::string name;  ///< relative to the target directory
  std::size_t file_class = 0;
  planner::Index rank = 0;  ///< the lowest that stores its tensors here
};

struct TargetFiles {
  const format::FileFormat* format = nullptr;
  std::string files_template;  ///< empty for a numbered set
  std::vector<FileClass> classes;
  std::vector<TargetFile> files;
  std::vector<std::size_t> file_of_rank;
  std::vector<std::size_t> part_of_tensor;  ///< empty unless a numbered set
  std::string index_name;                   ///< of a numbered set; else empty
  std::string index_text;

  const FileClass& class_of(std::size_t file) const { return classes[files[file].file_class]; }
  /// Bytes of all tensors as stored, padding included, a shared file once.
  std::int64_t tensor_bytes() const;
  /// `bound`: what plan_target_files was given.
  planner::TargetMap map(const planner::BoundPlan& bound, int processes) const;
};

/// `metadata`: of the source, to travel on. Errors: kSchema (exit 3) where ranks that are no replicas share a file, or
/// `max_file_size` is given for a target that is not full safetensors; what the format cannot store.
TargetFiles plan_target_files(const plan::Side& side, const planner::BoundPlan& bound, const format::FileFormat& format,
                              const std::map<std::string, std::string>& metadata);

/// "tp=2" for every axis of a mesh.
std::vector<std::string> axes_text(const layout::Mesh& mesh);

}  // namespace reshard::pipeline
