#pragma once
// What a test case asks of the simulated machine, and what it must leave behind: nothing.

#include <cstddef>
#include <map>
#include <string>

namespace reshard::simulated_test {

using Variables = std::map<std::string, std::string>;

/// The machine with these variables ("SIMULATED_GPU_COUNT"), counting calls from 1; as it is without them afterwards.
class MachineWith {
 public:
  explicit MachineWith(Variables variables);
  ~MachineWith();
  MachineWith(const MachineWith&) = delete;
  MachineWith& operator=(const MachineWith&) = delete;

 private:
  Variables variables_;
};

/// Memory, streams, events and communicators that have not been given back.
std::size_t left_behind();

}  // namespace reshard::simulated_test
