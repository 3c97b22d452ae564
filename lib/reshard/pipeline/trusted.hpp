#pragma once
// What a run that is continued need not write again, and what it must look at instead: that the bytes it would have
// written are those that are there, and that what nobody writes is zero.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "reshard/exchange/communicator.hpp"
#include "reshard/pipeline/extents.hpp"

namespace reshard::pipeline {

/// Empty until `trust`, for a run that begins from nothing. Safe from several threads.
class Trusted {
 public:
  /// `kept`: by file, whether an earlier run has made it. `extents`: of kept files, read back and found as the journal
  /// says; by file, then position, disjoint.
  void trust(std::vector<bool> kept, std::vector<Extent> extents);

  std::int64_t bytes() const { return bytes_; }
  bool is_kept(std::size_t file) const { return file < kept_.size() && kept_[file]; }
  /// The number of the first trusted extent of the file that ends behind `position`; size() where there is none.
  std::size_t find(std::size_t file, std::int64_t position) const;
  std::size_t size() const { return extents_.size(); }
  const Extent& operator[](std::size_t number) const { return extents_[number]; }

  /// A piece of a trusted extent that ends at `end` would have been written; `reg` is its raw register.
  void skip(std::size_t number, std::int64_t end, std::uint64_t reg);
  /// Bytes of a kept file have been written or skipped.
  void cover(std::size_t file, std::int64_t begin, std::int64_t end);
  /// What of [begin, end) of a kept file this process has neither written nor skipped.
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps(std::size_t file, std::int64_t begin,
                                                          std::int64_t end) const {
    return covered_.gaps(file, begin, end);
  }

  /// Numbers of the extents whose skipped pieces, of all processes, are not what is there: they were written from other
  /// source bytes. Collective.
  std::vector<std::size_t> changed(exchange::Communicator& communicator) const;

 private:
  std::vector<bool> kept_;
  std::vector<Extent> extents_;
  std::vector<std::atomic<std::uint64_t>> skipped_;  // by extent: XOR of the shifted registers
  std::int64_t bytes_ = 0;
  std::mutex mutex_;
  Extents covered_;
};

}  // namespace reshard::pipeline
