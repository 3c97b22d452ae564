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

/// What a run does, in order. Every process comes to each that its run has.
enum class Phase {
  kPrepare,   ///< plan and headers are read
  kClaim,     ///< what lies at the target is looked at
  kStage,     ///< the staging directory is made
  kTrust,     ///< what an earlier run has left is read
  kCreate,    ///< files are created
  kMove,      ///< the first bytes move
  kFlush,     ///< files are flushed
  kManifest,  ///< digests are compared, side files and index written
  kPublish,   ///< manifest and renaming
};

class Hooks {
 public:
  virtual ~Hooks() = default;
  /// Called where the phase begins, so that what it throws is an error of that phase.
  virtual void on_phase(Phase) {}
  /// Called from worker threads.
  virtual void on_buffer(BufferStage stage, std::string_view tensor, std::span<std::byte> bytes) = 0;
};

inline void enter(Phase phase, Hooks* hooks) {
  if (hooks != nullptr) hooks->on_phase(phase);
}

}  // namespace reshard::pipeline
