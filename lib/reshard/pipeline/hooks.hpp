#pragma once
// Where a test may look at, or spoil, what a run holds. Production code passes none.

#include <cstddef>
#include <span>
#include <string_view>

namespace reshard::pipeline {

/// A buffer of tensor bytes on its way, in order.
enum class BufferStage {
  kRead,      ///< as read from the file, after its digest was taken
  kPacked,    ///< packed for another process
  kReceived,  ///< as it came from another process
  kUnpacked,  ///< about to be digested and handed to the write call
  kReadBack,  ///< as read from a finished file, before its digest is taken
};

class Hooks {
 public:
  virtual ~Hooks() = default;
  /// Called from worker threads.
  virtual void on_buffer(BufferStage stage, std::string_view tensor, std::span<std::byte> bytes) = 0;
};

}  // namespace reshard::pipeline
