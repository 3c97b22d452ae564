#pragma once
// GPUs through CUDA and NCCL.

#include <memory>

#include "reshard/exchange/device.hpp"

namespace reshard::exchange {

std::unique_ptr<Gpus> nccl_gpus();

}  // namespace reshard::exchange
