#include "reshard/pipeline/target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"
#include "reshard/format/safetensors/index.hpp"
#include "reshard/pipeline/journal.hpp"
#include "reshard/pipeline/shared_files.hpp"
#include "reshard/plan/rank_files.hpp"
#include "reshard/planner/file_order.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;

[[noreturn]] void refuse(std::string message) {
  throw Error(Exit::kPlan, {Issue{ErrorCode::kSchema, "target", kNoTensor, std::move(message)}});
}

/// The layouts a rank stores something of, each followed by the stored shape: equal for ranks whose files are laid out
/// alike.
std::vector<Index> stored_shapes(const planner::BoundPlan& bound, Index rank) {
  std::vector<Index> out;
  for (std::size_t l = 0; l < bound.layouts.size(); ++l) {
    const layout::TensorLayout& target = bound.layouts[l].target;
    if (!target.is_present(rank)) continue;
    out.push_back(static_cast<Index>(l));
    for (const Index extent : target.stored_shape(rank)) out.push_back(extent);
  }
  return out;
}

/// The tensors of every layout, ascending.
std::vector<std::vector<std::size_t>> tensors_by_layout(const planner::BoundPlan& bound) {
  std::vector<std::vector<std::size_t>> out(bound.layouts.size());
  for (std::size_t t = 0; t < bound.tensors.size(); ++t) out[bound.tensors[t].layout].push_back(t);
  return out;
}

format::NewTensor new_tensor(const planner::BoundPlan& bound, std::size_t t, Index rank) {
  const planner::BoundTensor& tensor = bound.tensors[t];
  const layout::TensorLayout& target = bound.layouts[tensor.layout].target;
  return {tensor.target_stored_name(), tensor.target_dtype, target.stored_shape(rank), target.shape};
}

std::int64_t tensor_bytes_of(const format::NewTensor& tensor) {
  return checked_mul(checked_product(tensor.shape), size_bytes(tensor.dtype));
}

/// Tensors of a full target by file: in bytewise name order, a new file where the next tensor would pass the limit.
std::vector<std::vector<std::size_t>> numbered_set(const planner::BoundPlan& bound, std::int64_t limit_bytes) {
  std::vector<std::size_t> order;
  for (std::size_t t = 0; t < bound.tensors.size(); ++t) order.push_back(t);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return bound.tensors[a].target_stored_name() < bound.tensors[b].target_stored_name();
  });
  std::vector<std::vector<std::size_t>> files(1);
  std::int64_t filled = 0;
  for (const std::size_t t : order) {
    const std::int64_t bytes = tensor_bytes_of(new_tensor(bound, t, 0));
    if (!files.back().empty() && checked_add(filled, bytes) > limit_bytes) {
      files.emplace_back();
      filled = 0;
    }
    files.back().push_back(t);
    filled = checked_add(filled, bytes);
  }
  return files;
}

}  // namespace

std::vector<std::string> axes_text(const layout::Mesh& mesh) {
  std::vector<std::string> out;
  for (const layout::Axis& axis : mesh.axes()) out.push_back(fmt::format("{}={}", axis.name, axis.size));
  return out;
}

std::vector<std::pair<std::int64_t, std::int64_t>> FileClass::tensor_ranges() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (const std::int64_t bytes = tensor_bytes_of(content.tensors[i]); bytes > 0)
      out.emplace_back(layout.offsets[i], layout.offsets[i] + bytes);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::pair<std::int64_t, std::int64_t>> FileClass::header_ranges() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  std::int64_t at = 0;
  for (const auto& [begin, end] : tensor_ranges()) {
    if (at < begin) out.emplace_back(at, begin);
    at = end;
  }
  if (at < layout.bytes) out.emplace_back(at, layout.bytes);
  return out;
}

std::int64_t TargetFiles::tensor_bytes() const {
  std::int64_t out = 0;
  for (const TargetFile& file : files)
    for (const format::NewTensor& tensor : classes[file.file_class].content.tensors)
      out = checked_add(out, tensor_bytes_of(tensor));
  return out;
}

planner::TargetMap TargetFiles::map(const planner::BoundPlan& bound, int processes) const {
  std::vector<std::vector<planner::TensorOffset>> offsets;
  for (const FileClass& file_class : classes) {
    std::vector<planner::TensorOffset>& all = offsets.emplace_back();
    for (std::size_t i = 0; i < file_class.tensors.size(); ++i)
      all.push_back({file_class.tensors[i], file_class.layout.offsets[i]});
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  }
  std::vector<std::int64_t> bytes;
  std::vector<std::size_t> classes_of_files;
  for (const TargetFile& file : files) {
    bytes.push_back(classes[file.file_class].layout.bytes);
    classes_of_files.push_back(file.file_class);
  }
  std::vector<std::size_t> order(files.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (part_of_tensor.empty()) order = planner::file_order(bound, file_of_rank, bytes, processes);
  return planner::TargetMap(file_of_rank, part_of_tensor, std::move(bytes), std::move(classes_of_files),
                            std::move(offsets), order, processes);
}

TargetFiles plan_target_files(const plan::Side& side, const planner::BoundPlan& bound, const format::FileFormat& format,
                              const std::map<std::string, std::string>& metadata) {
  const Index ranks = side.mesh.size();
  TargetFiles out;
  out.format = &format;

  const auto add_class = [&](std::vector<std::size_t> tensors, Index rank) {
    FileClass file_class;
    file_class.tensors = std::move(tensors);
    file_class.content.tensors.reserve(file_class.tensors.size());
    for (const std::size_t t : file_class.tensors) {
      file_class.content.tensors.push_back(new_tensor(bound, t, rank));
      format.check(file_class.content.tensors.back());
    }
    file_class.content.metadata = metadata;
    file_class.content.axes = axes_text(side.mesh);
    file_class.layout = format.lay_out(file_class.content);
    out.classes.push_back(std::move(file_class));
    return out.classes.size() - 1;
  };

  if (side.max_file_size_bytes) {
    if (ranks != 1 || format.name() != "safetensors" || side.files)
      refuse("'max_file_size' is for full safetensors targets with the default file names only");
    const std::vector<std::vector<std::size_t>> set = numbered_set(bound, *side.max_file_size_bytes);
    if (set.size() > 1) {
      format::safetensors::Index index;
      index.total_size = 0;
      index.total_parameters = 0;
      out.part_of_tensor.assign(bound.tensors.size(), 0);
      for (std::size_t i = 0; i < set.size(); ++i) {
        const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, set.size());
        for (const std::size_t t : set[i]) {
          const format::NewTensor tensor = new_tensor(bound, t, 0);
          index.weight_map[tensor.name] = name;
          index.total_size = checked_add(*index.total_size, tensor_bytes_of(tensor));
          index.total_parameters = checked_add(*index.total_parameters, checked_product(tensor.shape));
          out.part_of_tensor[t] = i;
        }
        out.files.push_back({name, add_class(set[i], 0), 0});
      }
      out.file_of_rank = {0};
      out.index_name = format::safetensors::kIndexName;
      out.index_text = format::safetensors::to_json(index);
      return out;
    }
  }

  out.files_template = side.files.value_or(plan::default_files(ranks, format.extension()));
  const plan::RankFiles names(out.files_template, side);
  std::map<std::string, std::size_t> file_numbers;
  std::map<std::vector<Index>, std::size_t> class_numbers;
  const std::vector<std::vector<std::size_t>> by_layout = tensors_by_layout(bound);
  for (Index rank = 0; rank < ranks; ++rank) {
    const std::string name = names.of(rank);
    if (is_staging_name(name))
      refuse(fmt::format("'files' gives {} to rank {}: the run keeps names like this for its journal", name, rank));
    const auto [file, new_file] = file_numbers.try_emplace(name, out.files.size());
    out.file_of_rank.push_back(file->second);
    if (!new_file) continue;
    const auto [file_class, new_class] = class_numbers.try_emplace(stored_shapes(bound, rank), out.classes.size());
    if (new_class) {
      std::vector<std::size_t> tensors;
      for (std::size_t l = 0; l < bound.layouts.size(); ++l)
        if (bound.layouts[l].target.is_present(rank))
          tensors.insert(tensors.end(), by_layout[l].begin(), by_layout[l].end());
      std::sort(tensors.begin(), tensors.end());
      add_class(std::move(tensors), rank);
    }
    out.files.push_back({name, file_class->second, rank});
  }
  std::vector<std::string> file_names;
  for (const TargetFile& file : out.files) file_names.push_back(file.name);
  check_shared_files(bound, &planner::LayoutPair::target, "target", out.file_of_rank, file_names);
  return out;
}

}  // namespace reshard::pipeline
