#pragma once
// What a GPU does with the elements of one box: the counterpart of box.hpp for memory that the host does not touch. A
// task is a plain value that goes to the device as it is; the body that works on it (cuda/copy_body.hpp) compiles for
// host and device alike.
//
//   pack 3 rows of 16 bytes, 64 apart, from byte 1024 on, to byte 4096 on:
//   source 1024, target 4096, run_elements 16 of 1 byte, one level {extent 3, source_pitch 64, target_pitch 16}
//
// A box of more than kCopyLevels levels that cannot be joined becomes several tasks: no more than the extents of its
// dims multiply to beyond the innermost kCopyLevels + 1, of which the last is the run (where that has strides other
// than 1, beyond the innermost kCopyLevels).

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/exchange/host_device.hpp"
#include "reshard/layout/copy_box.hpp"

namespace reshard::exchange {

inline constexpr int kCopyLevels = 4;

/// The dtypes of a conversion on the way (convert.hpp).
struct Conversion {
  Dtype from = Dtype::kF32;
  Dtype to = Dtype::kF32;
};

/// `extent` steps, so many bytes apart on either side. A source pitch of 0 repeats.
struct CopyLevel {
  std::int64_t extent = 1;
  std::int64_t source_pitch = 0;
  std::int64_t target_pitch = 0;
};

/// Runs of elements. Offsets and pitches are bytes; a task has no pointers: source and target lie in one block of
/// device memory, given at launch.
struct CopyTask {
  enum class Kind : std::int32_t { kCopy, kConvert, kZero };

  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t run_elements = 0;  ///< contiguous on both sides
  CopyLevel levels[kCopyLevels];  ///< innermost first; those that are not used have extent 1
  Kind kind = Kind::kCopy;
  std::int32_t source_element_bytes = 1;  ///< kCopy: the widest word (16, 8, 4, 2 or 1) that all offsets, pitches and
  std::int32_t target_element_bytes = 1;  ///< the run allow, in place of the element
  Dtype from = Dtype::kF32;               ///< of kConvert
  Dtype to = Dtype::kF32;
  std::int64_t first_tile = 0;  ///< set by number_tiles

  RESHARD_HOST_DEVICE std::int64_t elements() const {
    std::int64_t out = run_elements;
    for (const CopyLevel& level : levels) out *= level.extent;
    return out;
  }
};

/// From the source side of a box to packed elements (row-major order of the box), or the other way round, as in
/// box.hpp, or from the source side to the target side. `..._at`: byte at which the buffer, or the packed elements,
/// begin.
void add_pack(std::vector<CopyTask>& tasks, const layout::CopyBox& box, std::int64_t element_bytes,
              std::optional<Conversion> conversion, std::int64_t source_at, std::int64_t packed_at);
void add_unpack(std::vector<CopyTask>& tasks, const layout::CopyBox& box, std::int64_t element_bytes,
                std::int64_t packed_at, std::int64_t target_at);
void add_move(std::vector<CopyTask>& tasks, const layout::CopyBox& box, std::int64_t element_bytes,
              std::optional<Conversion> conversion, std::int64_t source_at, std::int64_t target_at);
/// `element_bytes` above: of the source. The target's is that of the conversion where there is one.

/// One task.
void add_zeros(std::vector<CopyTask>& tasks, std::int64_t target_at, std::int64_t bytes);

/// Bytes, on the target side, that one block of threads works on.
inline constexpr std::int64_t kCopyTileBytes = std::int64_t{32} << 10;

/// Gives every task its place in the row of tiles of one launch; returns the number of tiles.
std::int64_t number_tiles(std::span<CopyTask> tasks);

}  // namespace reshard::exchange
