#pragma once
// Byte ranges of target files with the CRC-64 of what they hold. Ranges that meet are joined, by the linearity of the
// CRC (base/crc64.hpp), up to the next multiple of 64 MiB of the file: the cuts are fixed, whatever number of processes
// wrote the file (interface section 3).

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace reshard::pipeline {

/// No extent crosses a multiple of this.
inline constexpr std::int64_t kCutBytes = std::int64_t{64} << 20;

/// The first cut behind `position`.
constexpr std::int64_t next_cut(std::int64_t position) {
  return (position / kCutBytes + 1) * kCutBytes;
}

/// Bytes [begin, end) of a file.
struct Extent {
  std::size_t file = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint64_t reg = 0;  ///< raw CRC-64 register of the bytes alone

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Disjoint extents of any number of files.
class Extents {
 public:
  /// False, and nothing is changed, where the extent overlaps another. It may not be empty nor cross a cut.
  bool add(const Extent& extent);
  std::int64_t bytes() const { return bytes_; }
  /// By file, then position.
  std::vector<Extent> all() const;
  /// What of [begin, end) no extent holds, in order.
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps(std::size_t file, std::int64_t begin, std::int64_t end) const;

 private:
  struct Rest {
    std::int64_t end = 0;
    std::uint64_t reg = 0;
  };
  std::map<std::pair<std::size_t, std::int64_t>, Rest> extents_;  // by file and begin
  std::int64_t bytes_ = 0;
};

}  // namespace reshard::pipeline
