#include "gpus.hpp"
#include "reshard/exchange/nccl/nccl_gpus.hpp"

namespace reshard::app {

exchange::Gpus* gpus() {
  static const std::unique_ptr<exchange::Gpus> gpus = exchange::nccl_gpus();
  return gpus.get();
}

}  // namespace reshard::app
