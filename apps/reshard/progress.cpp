#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>

#include "reshard/report/text.hpp"

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
    if (begin == Clock::time_point{}) begin = Clock::now() - interval;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const double speed = static_cast<double>(done) / seconds;
    const std::string left = done > 0 ? fmt::format("{:.0f} s left", static_cast<double>(total - done) / speed) : "";
    // Not fmt::print: that throws where the terminal has gone.
    std::fputs(fmt::format("{}{:3.0f} %  {} of {}  {}/s  {}{}", terminal ? "\r\x1b[K" : "",
                           100.0 * static_cast<double>(done) / static_cast<double>(total), report::bytes_text(done),
                           report::bytes_text(total), report::bytes_text(static_cast<std::int64_t>(speed)), left,
                           terminal ? "" : "\n")
                   .c_str(),
               stderr);
    std::fflush(stderr);
    drawn = true;
  }
  if (drawn && terminal) std::fputs("\r\x1b[K", stderr);
}

}  // namespace reshard::app
