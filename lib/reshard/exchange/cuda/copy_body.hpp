#pragma once
// What one thread of a GPU does in one tile of a row of copy tasks. Plain C++ for host and device: no CUDA header, no
// memory that threads share, so that the arithmetic is tested without a GPU.
//
// Consecutive threads take consecutive elements. Only a thread's first place is found by division; every further one
// follows by addition with carry, digit by digit.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "reshard/exchange/convert.hpp"
#include "reshard/exchange/copy_task.hpp"
#include "reshard/exchange/host_device.hpp"

namespace reshard::exchange::cuda {

/// The widest word that one instruction of a GPU loads.
struct alignas(16) Word16 {
  std::uint64_t low;
  std::uint64_t high;
};

/// `at` is a multiple of the word's size.
template <typename Word>
RESHARD_HOST_DEVICE Word load(const std::byte* at) {
  Word word;
  std::memcpy(&word, __builtin_assume_aligned(at, sizeof(Word)), sizeof(Word));
  return word;
}

template <typename Word>
RESHARD_HOST_DEVICE void store(std::byte* at, Word word) {
  std::memcpy(__builtin_assume_aligned(at, sizeof(Word)), &word, sizeof(Word));
}

/// Elements of a conversion lie at any byte; a GPU faults on a word that is not aligned.
template <typename Word>
RESHARD_HOST_DEVICE bool is_aligned(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % sizeof(Word) == 0;
}

template <typename Word>
RESHARD_HOST_DEVICE Word load_anywhere(const std::byte* at) {
  if (is_aligned<Word>(at)) return load<Word>(at);
  Word word = 0;
  for (unsigned i = 0; i < sizeof(Word); ++i)
    word = static_cast<Word>(word | static_cast<Word>(static_cast<Word>(at[i]) << (8 * i)));
  return word;
}

template <typename Word>
RESHARD_HOST_DEVICE void store_anywhere(std::byte* at, Word word) {
  if (is_aligned<Word>(at)) return store<Word>(at, word);
  for (unsigned i = 0; i < sizeof(Word); ++i) at[i] = static_cast<std::byte>(word >> (8 * i) & 0xff);
}

/// Elements of a task, one every `step`, in the order of the task: the run first, then the levels from the innermost
/// on. The place is a number whose digits count up to the run and the extents.
class TaskWalk {
 public:
  RESHARD_HOST_DEVICE TaskWalk(const CopyTask& task, std::int64_t first, std::int64_t step) {
    digits_[0] = digit(task.run_elements, task.source_element_bytes, task.target_element_bytes, first, step);
    for (int i = 0; i < kCopyLevels; ++i) {
      const CopyLevel& level = task.levels[i];
      digits_[i + 1] = digit(level.extent, level.source_pitch, level.target_pitch, first, step);
    }
    source_ = task.source;
    target_ = task.target;
    for (const Digit& digit : digits_) {
      source_ += digit.at * digit.source_pitch;
      target_ += digit.at * digit.target_pitch;
    }
  }

  RESHARD_HOST_DEVICE std::int64_t source() const { return source_; }
  RESHARD_HOST_DEVICE std::int64_t target() const { return target_; }

  RESHARD_HOST_DEVICE void advance() {
    std::int64_t carry = 0;
    for (Digit& digit : digits_) {
      std::int64_t by = digit.step + carry;
      carry = digit.at + by >= digit.extent ? 1 : 0;
      if (carry != 0) by -= digit.extent;
      digit.at += by;
      source_ += by * digit.source_pitch;
      target_ += by * digit.target_pitch;
    }
  }

 private:
  struct Digit {
    std::int64_t extent;
    std::int64_t source_pitch;
    std::int64_t target_pitch;
    std::int64_t at;
    std::int64_t step;
  };

  /// Takes its digit off `first` and `step`.
  RESHARD_HOST_DEVICE static Digit digit(std::int64_t extent, std::int64_t source_pitch, std::int64_t target_pitch,
                                         std::int64_t& first, std::int64_t& step) {
    if (extent == 1) return {1, 0, 0, 0, 0};
    const Digit out{extent, source_pitch, target_pitch, first % extent, step % extent};
    first /= extent;
    step /= extent;
    return out;
  }

  Digit digits_[kCopyLevels + 1];
  std::int64_t source_;
  std::int64_t target_;
};

/// One thread's elements of one tile.
struct TileShare {
  std::int64_t first;
  std::int64_t end;
  std::int64_t step;
};

/// Calls move(source, target), offsets in bytes, for every element of the share.
template <typename Move>
RESHARD_HOST_DEVICE void for_each_element(const CopyTask& task, TileShare share, const Move& move) {
  if (share.first >= share.end) return;
  TaskWalk walk(task, share.first, share.step);
  for (std::int64_t i = share.first;;) {
    move(walk.source(), walk.target());
    i += share.step;
    if (i >= share.end) return;
    walk.advance();
  }
}

template <typename Word>
RESHARD_HOST_DEVICE void copy_words(const CopyTask& task, TileShare share, std::byte* memory) {
  if (task.kind == CopyTask::Kind::kZero) {
    for_each_element(task, share, [=](std::int64_t, std::int64_t target) { store(memory + target, Word{}); });
  } else {
    for_each_element(task, share, [=](std::int64_t source, std::int64_t target) {
      store(memory + target, load<Word>(memory + source));
    });
  }
}

template <typename From, typename To>
RESHARD_HOST_DEVICE void convert_elements(const CopyTask& task, TileShare share, std::byte* memory) {
  for_each_element(task, share, [=](std::int64_t source, std::int64_t target) {
    const auto from = load_anywhere<typename From::Word>(memory + source);
    store_anywhere(memory + target, convert_value<From, To>(from));
  });
}

template <typename From>
RESHARD_HOST_DEVICE void convert_elements_from(const CopyTask& task, TileShare share, std::byte* memory) {
  switch (task.to) {
    case Dtype::kF64:
      return convert_elements<From, binary::F64>(task, share, memory);
    case Dtype::kF32:
      return convert_elements<From, binary::F32>(task, share, memory);
    case Dtype::kF16:
      return convert_elements<From, binary::F16>(task, share, memory);
    default:
      return convert_elements<From, binary::Bf16>(task, share, memory);
  }
}

RESHARD_HOST_DEVICE inline void convert_elements(const CopyTask& task, TileShare share, std::byte* memory) {
  switch (task.from) {
    case Dtype::kF64:
      return convert_elements_from<binary::F64>(task, share, memory);
    case Dtype::kF32:
      return convert_elements_from<binary::F32>(task, share, memory);
    case Dtype::kF16:
      return convert_elements_from<binary::F16>(task, share, memory);
    default:
      return convert_elements_from<binary::Bf16>(task, share, memory);
  }
}

/// The task that a tile belongs to: the last one that does not begin after it.
RESHARD_HOST_DEVICE inline const CopyTask& task_of_tile(const CopyTask* tasks, std::int64_t count, std::int64_t tile) {
  std::int64_t low = 0;
  std::int64_t high = count;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (tasks[middle].first_tile <= tile ? low : high) = middle;
  }
  return tasks[low];
}

/// The share of thread `thread` of `threads` in tile `tile`. All threads of all tiles together do every element of
/// every task once.
RESHARD_HOST_DEVICE inline void copy_tile(const CopyTask* tasks, std::int64_t count, std::int64_t tile, int thread,
                                          int threads, std::byte* memory) {
  const CopyTask& task = task_of_tile(tasks, count, tile);
  const std::int64_t tile_elements = kCopyTileBytes / task.target_element_bytes;
  const std::int64_t first = (tile - task.first_tile) * tile_elements;
  const std::int64_t elements = task.elements();
  const std::int64_t end = first + tile_elements < elements ? first + tile_elements : elements;
  const TileShare share{first + thread, end, threads};
  if (task.kind == CopyTask::Kind::kConvert) return convert_elements(task, share, memory);
  switch (task.target_element_bytes) {
    case 1:
      return copy_words<std::uint8_t>(task, share, memory);
    case 2:
      return copy_words<std::uint16_t>(task, share, memory);
    case 4:
      return copy_words<std::uint32_t>(task, share, memory);
    case 8:
      return copy_words<std::uint64_t>(task, share, memory);
    default:
      return copy_words<Word16>(task, share, memory);
  }
}

}  // namespace reshard::exchange::cuda
