#include "simulated_gpu/machine.hpp"

#include <cstdlib>

#include "support/simulated_gpu/faults.hpp"
#include "support/simulated_gpu/memory.hpp"
#include "support/simulated_gpu/nccl_world.hpp"
#include "support/simulated_gpu/streams.hpp"

namespace reshard::simulated_test {

MachineWith::MachineWith(Variables variables) : variables_(std::move(variables)) {
  for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  simulated_gpu::restart();
}

MachineWith::~MachineWith() {
  for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  simulated_gpu::restart();
}

std::size_t left_behind() {
  return simulated_gpu::live_allocations() + simulated_gpu::live_streams_and_events() +
         simulated_gpu::live_communicators();
}

}  // namespace reshard::simulated_test
