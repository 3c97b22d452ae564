#include "reshard/exchange/copy_task.hpp"

#include <algorithm>
#include <cstddef>

#include "reshard/base/error.hpp"

namespace reshard::exchange {
namespace {

using layout::CopyBox;
using layout::Index;

/// One level of a walk through a box, in elements. The first one is the run.
struct Step {
  Index extent = 1;
  Index source_stride = 1;
  Index target_stride = 1;
};
using Walk = std::vector<Step>;

/// Innermost first, joined where the next step goes on from the end of the one before it on both sides.
/// `source_stride(i)`, `target_stride(i)`: of dim i, in elements.
template <typename SourceStride, typename TargetStride>
Walk make_walk(const CopyBox& box, SourceStride source_stride, TargetStride target_stride) {
  Walk walk(1);
  for (std::size_t i = box.dims.size(); i-- > 0;) {
    const Step step{box.dims[i].extent, source_stride(i), target_stride(i)};
    Step& last = walk.back();
    if (step.extent == 1) continue;
    if (step.source_stride == last.source_stride * last.extent &&
        step.target_stride == last.target_stride * last.extent)
      last.extent *= step.extent;
    else
      walk.push_back(step);
  }
  return walk;
}

Walk pack_walk(const CopyBox& box) {
  const std::vector<Index> packed = layout::packed_strides(box);
  return make_walk(
      box, [&](std::size_t i) { return box.dims[i].source_stride; }, [&](std::size_t i) { return packed[i]; });
}

Walk unpack_walk(const CopyBox& box) {
  const std::vector<Index> packed = layout::packed_strides(box);
  return make_walk(
      box, [&](std::size_t i) { return packed[i]; }, [&](std::size_t i) { return box.dims[i].target_stride; });
}

Walk move_walk(const CopyBox& box) {
  return make_walk(
      box, [&](std::size_t i) { return box.dims[i].source_stride; },
      [&](std::size_t i) { return box.dims[i].target_stride; });
}

/// Takes the steps that a task has no room for out of the walk, those of the smallest extents.
Walk take_surplus(Walk& walk) {
  Walk surplus;
  while (walk.size() > kCopyLevels + 1) {
    const auto least = std::min_element(walk.begin() + 1, walk.end(),
                                        [](const Step& a, const Step& b) { return a.extent < b.extent; });
    surplus.push_back(*least);
    walk.erase(least);
  }
  return surplus;
}

/// The widest power of two up to 16 that divides all of `bytes`.
std::int32_t widest_word(std::int64_t bytes) {
  std::int32_t word = 16;
  while (bytes % word != 0) word /= 2;
  return word;
}

/// Makes words of the elements of a task that copies them as they are.
void widen(CopyTask& task) {
  const std::int64_t run_bytes = task.run_elements * task.target_element_bytes;
  std::int64_t bytes = task.source | task.target | run_bytes;  // its low bits are zero where those of all are
  for (const CopyLevel& level : task.levels) bytes |= level.source_pitch | level.target_pitch;
  const std::int32_t word = widest_word(bytes);
  task.run_elements = run_bytes / word;
  task.source_element_bytes = task.target_element_bytes = word;
}

/// The tasks of a walk whose first element lies at bytes `source` and `target`.
void add_walk(std::vector<CopyTask>& tasks, Walk walk, std::int64_t element_bytes, std::optional<Conversion> conversion,
              std::int64_t source, std::int64_t target) {
  const auto empty = [](const Step& step) { return step.extent == 0; };
  if (std::any_of(walk.begin(), walk.end(), empty)) return;
  CopyTask task;
  std::int64_t target_element_bytes = element_bytes;
  if (conversion) {
    if (element_bytes != size_bytes(conversion->from)) internal_error("elements of another size than their dtype has");
    target_element_bytes = size_bytes(conversion->to);
    task.kind = CopyTask::Kind::kConvert;
    task.from = conversion->from;
    task.to = conversion->to;
  }
  task.source_element_bytes = static_cast<std::int32_t>(element_bytes);
  task.target_element_bytes = static_cast<std::int32_t>(target_element_bytes);
  const Walk surplus = take_surplus(walk);
  task.run_elements = walk[0].extent;
  for (std::size_t i = 1; i < walk.size(); ++i)
    task.levels[i - 1] = {walk[i].extent, walk[i].source_stride * element_bytes,
                          walk[i].target_stride * target_element_bytes};

  const auto first = static_cast<std::ptrdiff_t>(tasks.size());
  task.source = source;
  task.target = target;
  tasks.push_back(task);
  for (const Step& step : surplus) {
    const std::vector<CopyTask> inner(tasks.begin() + first, tasks.end());
    for (Index i = 1; i < step.extent; ++i)
      for (CopyTask copy : inner) {
        copy.source += i * step.source_stride * element_bytes;
        copy.target += i * step.target_stride * target_element_bytes;
        tasks.push_back(copy);
      }
  }
  if (!conversion) std::for_each(tasks.begin() + first, tasks.end(), widen);
}

}  // namespace

void add_pack(std::vector<CopyTask>& tasks, const CopyBox& box, std::int64_t element_bytes,
              std::optional<Conversion> conversion, std::int64_t source_at, std::int64_t packed_at) {
  add_walk(tasks, pack_walk(box), element_bytes, conversion, source_at + box.source_offset * element_bytes, packed_at);
}

void add_unpack(std::vector<CopyTask>& tasks, const CopyBox& box, std::int64_t element_bytes, std::int64_t packed_at,
                std::int64_t target_at) {
  add_walk(tasks, unpack_walk(box), element_bytes, {}, packed_at, target_at + box.target_offset * element_bytes);
}

void add_move(std::vector<CopyTask>& tasks, const CopyBox& box, std::int64_t element_bytes,
              std::optional<Conversion> conversion, std::int64_t source_at, std::int64_t target_at) {
  const std::int64_t target_element_bytes = conversion ? size_bytes(conversion->to) : element_bytes;
  add_walk(tasks, move_walk(box), element_bytes, conversion, source_at + box.source_offset * element_bytes,
           target_at + box.target_offset * target_element_bytes);
}

void add_zeros(std::vector<CopyTask>& tasks, std::int64_t target_at, std::int64_t bytes) {
  if (bytes == 0) return;
  CopyTask task;
  task.kind = CopyTask::Kind::kZero;
  task.target = target_at;
  task.run_elements = bytes;
  widen(task);
  tasks.push_back(task);
}

std::int64_t number_tiles(std::span<CopyTask> tasks) {
  std::int64_t tiles = 0;
  for (CopyTask& task : tasks) {
    const std::int64_t tile_elements = kCopyTileBytes / task.target_element_bytes;
    task.first_tile = tiles;
    tiles += (task.elements() + tile_elements - 1) / tile_elements;
  }
  return tiles;
}

}  // namespace reshard::exchange
