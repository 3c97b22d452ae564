// The executable with the simulated CUDA and NCCL in place of a GPU.

#include "gpus.hpp"
#include "support/simulated_gpu/simulated_gpus.hpp"

namespace reshard::app {

exchange::Gpus* gpus() {
  static const std::unique_ptr<exchange::Gpus> gpus = simulated_gpu::simulated_gpus();
  return gpus.get();
}

}  // namespace reshard::app
