#include "reshard/exchange/box.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "reshard/base/crc64.hpp"
#include "reshard/exchange/convert.hpp"

namespace reshard::exchange {
namespace {

/// One level of a walk: extent, byte pitch in two places (second unused by digests).
struct Step {
  Index extent = 1;
  Index pitch_a = 0;
  Index pitch_b = 0;
};

/// A box in bytes: outer steps, and the run that is contiguous in both places.
struct Walk {
  std::vector<Step> steps;
  Index run_bytes = 0;
};

/// `strides(dim)` gives the two strides in elements.
template <typename Strides>
Walk make_walk(const CopyBox& box, std::int64_t element_bytes, Strides strides) {
  Walk walk;
  walk.run_bytes = element_bytes;
  for (std::size_t i = box.dims.size(); i-- > 0;) {
    const auto [a, b] = strides(i);
    const Step step{box.dims[i].extent, a * element_bytes, b * element_bytes};
    if (walk.steps.empty() && step.pitch_a == walk.run_bytes && step.pitch_b == walk.run_bytes) {
      walk.run_bytes *= step.extent;
    } else if (step.extent != 1) {
      walk.steps.push_back(step);
    }
  }
  return walk;
}

/// Calls run(offset_a, offset_b) for every run of the walk.
template <typename Run>
void for_each_run(const Walk& walk, Run run) {
  const std::size_t levels = walk.steps.size();
  if (levels == 0) return run(Index{0}, Index{0});
  const Step& inner = walk.steps.front();
  std::vector<Index> at(levels, 0);
  Index a = 0;
  Index b = 0;
  while (true) {
    for (Index i = 0; i < inner.extent; ++i) run(a + i * inner.pitch_a, b + i * inner.pitch_b);
    std::size_t level = 1;
    for (; level < levels; ++level) {
      const Step& step = walk.steps[level];
      if (++at[level] < step.extent) {
        a += step.pitch_a;
        b += step.pitch_b;
        break;
      }
      a -= (step.extent - 1) * step.pitch_a;
      b -= (step.extent - 1) * step.pitch_b;
      at[level] = 0;
    }
    if (level == levels) return;
  }
}

/// Copies runs; short ones of the usual element sizes without a call.
void copy_runs(const Walk& walk, const std::byte* from, std::byte* to) {
  const auto bytes = static_cast<std::size_t>(walk.run_bytes);
  const auto copy = [&](auto fixed) {
    for_each_run(walk, [&](Index a, Index b) { std::memcpy(to + b, from + a, sizeof fixed); });
  };
  switch (bytes) {
    case 1:
      return copy(std::array<std::byte, 1>{});
    case 2:
      return copy(std::array<std::byte, 2>{});
    case 4:
      return copy(std::array<std::byte, 4>{});
    case 8:
      return copy(std::array<std::byte, 8>{});
    case 16:
      return copy(std::array<std::byte, 16>{});
    default:
      for_each_run(walk, [&](Index a, Index b) { std::memcpy(to + b, from + a, bytes); });
  }
}

Index stride_of(const layout::CopyDim& dim, Side side) {
  return side == Side::kSource ? dim.source_stride : dim.target_stride;
}

Index offset_of(const CopyBox& box, Side side) {
  return side == Side::kSource ? box.source_offset : box.target_offset;
}

/// Register of the steps `level - 1 .. 0` from `at` on, as of the end of the last run. `run(at)` is that of a run. Walk
/// place b is the logical tensor.
template <typename Run>
std::uint64_t walk_register(const Walk& walk, const std::vector<crc64::Shift>& shifts, std::size_t level,
                            const std::byte* at, const Run& run) {
  if (level == 0) return run(at);
  const Step& step = walk.steps[level - 1];
  const crc64::Shift& next = shifts[level - 1];
  std::uint64_t state = 0;
  for (Index i = 0; i < step.extent; ++i)
    state = next(state) ^ walk_register(walk, shifts, level - 1, at + i * step.pitch_a, run);
  return state;
}

/// `element_bytes`: in the tensor, where a run is `run_bytes` long.
template <typename Run>
std::uint64_t register_of(const CopyBox& box, const Walk& walk, std::int64_t element_bytes, Index run_bytes,
                          const std::byte* first, Index tensor_elements, const Run& run) {
  std::vector<crc64::Shift> shifts;
  Index last = box.logical_offset * element_bytes + run_bytes;  // end of the last run in the tensor, bytes
  for (const Step& step : walk.steps) {
    shifts.emplace_back(step.pitch_b);
    last += (step.extent - 1) * step.pitch_b;
  }
  const std::uint64_t state = walk_register(walk, shifts, walk.steps.size(), first, run);
  return crc64::shift(state, tensor_elements * element_bytes - last);
}

std::uint64_t register_of(const CopyBox& box, const Walk& walk, std::int64_t element_bytes, const std::byte* first,
                          Index tensor_elements) {
  return register_of(box, walk, element_bytes, walk.run_bytes, first, tensor_elements, [&](const std::byte* at) {
    return crc64::raw(0, {at, static_cast<std::size_t>(walk.run_bytes)});
  });
}

}  // namespace

void move_box(const CopyBox& box, std::int64_t element_bytes, std::span<const std::byte> source,
              std::span<std::byte> target) {
  const Walk walk = make_walk(box, element_bytes, [&](std::size_t i) {
    return std::pair(box.dims[i].source_stride, box.dims[i].target_stride);
  });
  copy_runs(walk, source.data() + box.source_offset * element_bytes, target.data() + box.target_offset * element_bytes);
}

void pack_box(const CopyBox& box, Side side, std::int64_t element_bytes, std::span<const std::byte> buffer,
              std::span<std::byte> packed) {
  const std::vector<Index> strides = layout::packed_strides(box);
  const Walk walk =
      make_walk(box, element_bytes, [&](std::size_t i) { return std::pair(stride_of(box.dims[i], side), strides[i]); });
  copy_runs(walk, buffer.data() + offset_of(box, side) * element_bytes, packed.data());
}

void unpack_box(const CopyBox& box, Side side, std::int64_t element_bytes, std::span<const std::byte> packed,
                std::span<std::byte> buffer) {
  const std::vector<Index> strides = layout::packed_strides(box);
  const Walk walk =
      make_walk(box, element_bytes, [&](std::size_t i) { return std::pair(strides[i], stride_of(box.dims[i], side)); });
  copy_runs(walk, packed.data(), buffer.data() + offset_of(box, side) * element_bytes);
}

std::uint64_t box_register(const CopyBox& box, Side side, std::int64_t element_bytes, std::span<const std::byte> buffer,
                           Index tensor_elements) {
  const Walk walk = make_walk(box, element_bytes, [&](std::size_t i) {
    return std::pair(stride_of(box.dims[i], side), box.dims[i].logical_stride);
  });
  return register_of(box, walk, element_bytes, buffer.data() + offset_of(box, side) * element_bytes, tensor_elements);
}

std::uint64_t packed_register(const CopyBox& box, std::int64_t element_bytes, std::span<const std::byte> packed,
                              Index tensor_elements) {
  const std::vector<Index> strides = layout::packed_strides(box);
  const Walk walk =
      make_walk(box, element_bytes, [&](std::size_t i) { return std::pair(strides[i], box.dims[i].logical_stride); });
  return register_of(box, walk, element_bytes, packed.data(), tensor_elements);
}

std::uint64_t converted_register(const CopyBox& box, Side side, Dtype from, Dtype to, std::span<const std::byte> buffer,
                                 Index tensor_elements) {
  const std::int64_t from_bytes = size_bytes(from);
  const std::int64_t to_bytes = size_bytes(to);
  // In elements first: they have two sizes.
  Walk walk = make_walk(
      box, 1, [&](std::size_t i) { return std::pair(stride_of(box.dims[i], side), box.dims[i].logical_stride); });
  for (Step& step : walk.steps) {
    step.pitch_a *= from_bytes;
    step.pitch_b *= to_bytes;
  }
  const Index run_elements = walk.run_bytes;
  constexpr Index kPieceElements = 1024;
  std::array<std::byte, kPieceElements * 8> converted;
  const auto run = [&](const std::byte* at) {
    std::uint64_t state = 0;
    for (Index done = 0; done < run_elements; done += kPieceElements) {
      const Index elements = std::min(kPieceElements, run_elements - done);
      const std::span<std::byte> out = std::span(converted).first(static_cast<std::size_t>(elements * to_bytes));
      convert(from, {at + done * from_bytes, static_cast<std::size_t>(elements * from_bytes)}, to, out);
      state = crc64::raw(state, out);
    }
    return state;
  };
  return register_of(box, walk, to_bytes, run_elements * to_bytes, buffer.data() + offset_of(box, side) * from_bytes,
                     tensor_elements, run);
}

}  // namespace reshard::exchange
