#pragma once
// Which process takes which GPU. Every process tells the identities (UUIDs) of the GPUs that it sees; the answer is a
// pure function of all of them, so that all processes come to the same one.

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace reshard::exchange {

/// A GPU's identity; the same on every process that sees it, different between nodes.
using DeviceId = std::string;

/// So many processes see these GPUs and no others: too many for one each.
struct DeviceShortage {
  int processes = 0;
  int devices = 0;

  friend bool operator==(const DeviceShortage&, const DeviceShortage&) = default;
};

struct DeviceAssignment {
  std::vector<int> devices;  ///< by process: index among the GPUs that it sees; empty where there are too few
  std::optional<DeviceShortage> shortage;

  friend bool operator==(const DeviceAssignment&, const DeviceAssignment&) = default;
};

/// A process takes the first of its GPUs that no lower process has; where all are taken, lower ones give way if they
/// see another. `visible`: by process, none of them empty.
DeviceAssignment assign_devices(std::span<const std::vector<DeviceId>> visible);

}  // namespace reshard::exchange
