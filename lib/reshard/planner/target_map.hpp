#pragma once
// Where target bytes go, and which process writes them.
//
// The files stand end to end (file_order.hpp); every process writes an equal share of that line, cut at multiples of 1
// MiB of a file's offsets: balanced whatever the sizes, each block of a file written by one process only (no two
// clients fight for a page or a stripe), and mostly whole files.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reshard/base/process_rank.hpp"
#include "reshard/layout/mesh.hpp"

namespace reshard::planner {

using layout::Index;

inline constexpr std::int64_t kRegionBytes = std::int64_t{1} << 20;

/// Bytes [begin, end) of a file, written by one process.
struct WriteRegion {
  std::size_t file = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  ProcessRank process = 0;

  friend bool operator==(const WriteRegion&, const WriteRegion&) = default;
};

/// Where a tensor begins in a file.
struct TensorOffset {
  std::size_t tensor = 0;
  std::int64_t begin = 0;
};

/// Where the share of a process ends on the line of `total` bytes.
std::int64_t share_end(std::int64_t total, ProcessRank process, int processes);

class TargetMap {
 public:
  /// `file_of_rank`: the file a rank stores its tensors in (replicas may share one); `part_of_tensor`: added to it
  /// where a rank's tensors are spread over several files (a numbered set), else empty. `file_bytes`: sizes of the
  /// whole files. `offsets[file_class[f]]`: where the tensors of file f begin, ascending by tensor. Files laid out
  /// alike share a class. `order`: the files as they stand on the line.
  TargetMap(std::vector<std::size_t> file_of_rank, std::vector<std::size_t> part_of_tensor,
            std::vector<std::int64_t> file_bytes, std::vector<std::size_t> file_class,
            std::vector<std::vector<TensorOffset>> offsets, std::span<const std::size_t> order, int processes);

  std::size_t files() const { return file_bytes_.size(); }
  std::int64_t file_bytes(std::size_t file) const { return file_bytes_[file]; }
  std::size_t file(std::size_t tensor, Index rank) const;
  /// The files of several ranks, each once, ascending.
  std::vector<std::size_t> files_of(std::size_t tensor, std::span<const Index> ranks) const;
  /// A tensor that the file has.
  std::int64_t offset(std::size_t tensor, std::size_t file) const;
  /// The regions that bytes [begin, end) of a file fall into, clipped to them, in order.
  std::vector<WriteRegion> regions(std::size_t file, std::int64_t begin, std::int64_t end) const;
  /// Regions of the whole files that a process writes.
  std::vector<WriteRegion> regions_of(ProcessRank process) const;

 private:
  std::vector<std::size_t> file_of_rank_;
  std::vector<std::size_t> part_of_tensor_;
  std::vector<std::int64_t> file_bytes_;
  std::vector<std::size_t> file_class_;
  std::vector<std::vector<TensorOffset>> offsets_;
  std::vector<std::vector<WriteRegion>> regions_;  // by file, in order
};

}  // namespace reshard::planner
