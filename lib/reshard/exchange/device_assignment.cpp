#include "reshard/exchange/device_assignment.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

namespace reshard::exchange {
namespace {

using Owners = std::map<DeviceId, std::size_t>;

/// Finds a GPU for `process`, by way of those of others where it must. `tried`: GPUs that have been asked for.
bool take(std::span<const std::vector<DeviceId>> visible, std::size_t process, Owners& owners,
          std::set<DeviceId>& tried) {
  for (const DeviceId& id : visible[process])
    if (owners.try_emplace(id, process).second) return true;
  for (const DeviceId& id : visible[process]) {
    if (!tried.insert(id).second || !take(visible, owners.at(id), owners, tried)) continue;
    owners[id] = process;
    return true;
  }
  return false;
}

}  // namespace

DeviceAssignment assign_devices(std::span<const std::vector<DeviceId>> visible) {
  Owners owners;
  for (std::size_t process = 0; process < visible.size(); ++process) {
    std::set<DeviceId> tried;
    if (take(visible, process, owners, tried)) continue;
    const auto sees_no_other = [&](const std::vector<DeviceId>& ids) {
      return std::all_of(ids.begin(), ids.end(), [&](const DeviceId& id) { return tried.contains(id); });
    };
    return {{},
            DeviceShortage{static_cast<int>(std::count_if(visible.begin(), visible.end(), sees_no_other)),
                           static_cast<int>(tried.size())}};
  }
  DeviceAssignment out;
  out.devices.resize(visible.size());
  for (const auto& [id, process] : owners) {
    const std::vector<DeviceId>& ids = visible[process];
    out.devices[process] = static_cast<int>(std::find(ids.begin(), ids.end(), id) - ids.begin());
  }
  return out;
}

}  // namespace reshard::exchange
