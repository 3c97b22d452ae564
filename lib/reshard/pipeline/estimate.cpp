#include "reshard/pipeline/estimate.hpp"

#include <algorithm>
#include <cmath>

namespace reshard::pipeline {
namespace {

double in_microseconds(double seconds) {
  return std::round(seconds * 1e6) / 1e6;
}

}  // namespace

Estimate estimate(const Workload& workload) {
  const auto read = static_cast<double>(workload.read_bytes);
  const auto written = static_cast<double>(workload.written_bytes);
  const auto needed = static_cast<double>(workload.needed_bytes);
  const double network = kNetworkBytesPerSecond * workload.processes;
  const double seconds = (read + written) / kStorageBytesPerSecond +
                         static_cast<double>(workload.exchanged_bytes) / network +
                         static_cast<double>(workload.files) * kSecondsPerFile;
  return {in_microseconds(seconds), in_microseconds(std::max(needed, written) / kStorageBytesPerSecond)};
}

}  // namespace reshard::pipeline
