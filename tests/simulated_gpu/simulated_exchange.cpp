#include "mpi/world.hpp"
#include "support/simulated_gpu/simulated_gpus.hpp"

namespace reshard::mpi_test {

const ExchangeUnderTest& exchange_under_test() {
  static const std::unique_ptr<exchange::Gpus> gpus = simulated_gpu::simulated_gpus();
  static const ExchangeUnderTest under_test{pipeline::Transport::kNccl, gpus.get()};
  return under_test;
}

}  // namespace reshard::mpi_test
