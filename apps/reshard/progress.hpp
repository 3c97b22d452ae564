#pragma once
// Bytes done, speed and time left, on standard error: one line rewritten on a terminal, a line every ten seconds
// elsewhere.

#include <atomic>
#include <cstdint>
#include <thread>

namespace reshard::app {

class Progress {
 public:
  /// Prints nothing where `enabled` is false.
  explicit Progress(bool enabled);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  std::atomic<std::int64_t> done_bytes = 0;
  std::atomic<std::int64_t> total_bytes = 0;

 private:
  void loop(const std::stop_token& stop);

  std::jthread thread_;
};

}  // namespace reshard::app
