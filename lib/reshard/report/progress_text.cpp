#include "reshard/report/progress_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reshard/report/text.hpp"

namespace reshard::report {
namespace {

constexpr double kTellingShare = 0.01;

}  // namespace

std::string progress_text(std::int64_t done_bytes, std::int64_t total_bytes, double seconds) {
  const auto done = static_cast<double>(done_bytes);
  const auto total = static_cast<double>(total_bytes);
  std::string out =
      fmt::format("{:3.0f} %  {} of {}", 100 * done / total, bytes_text(done_bytes), bytes_text(total_bytes));
  if (done_bytes <= 0 || seconds <= 0) return out;
  const double speed = done / seconds;
  out += fmt::format("  {}/s", bytes_text(static_cast<std::int64_t>(speed)));
  if (done >= kTellingShare * total) out += fmt::format("  {} left", seconds_text(std::max(0.0, total - done) / speed));
  return out;
}

}  // namespace reshard::report
