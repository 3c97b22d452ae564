#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "reshard/report/progress_text.hpp"

namespace reshard::app {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Progress::Progress(bool enabled) {
  if (enabled) thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

Progress::~Progress() = default;

void Progress::loop(const std::stop_token& stop) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  const auto interval = terminal ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10000);
  std::mutex mutex;
  std::condition_variable_any ticks;
  std::unique_lock lock(mutex);
  Clock::time_point begin{};
  bool drawn = false;
  while (true) {
    ticks.wait_for(lock, stop, interval, [] { return false; });
    if (stop.stop_requested()) break;
    const std::int64_t total = total_bytes;
    const std::int64_t done = done_bytes;
    if (total == 0) continue;
    // Files are made before the first byte is there: that time is none of the rate's.
    if (done == 0) begin = Clock::now();
    if (begin == Clock::time_point{}) begin = Clock::now() - interval;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    // Not fmt::print: that throws where the terminal has gone.
    std::fputs(fmt::format("{}{}{}", terminal ? "\r\x1b[K" : "", report::progress_text(done, total, seconds),
                           terminal ? "" : "\n")
                   .c_str(),
               stderr);
    std::fflush(stderr);
    drawn = true;
  }
  if (drawn && terminal) std::fputs("\r\x1b[K", stderr);
}

}  // namespace reshard::app
