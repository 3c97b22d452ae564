#pragma once
// The GPUs of the simulated machine: nccl_gpus(), linked against the simulated CUDA and NCCL, under versions that say
// so. Nothing here is evidence of what a real GPU does.

#include <memory>

#include "reshard/exchange/device.hpp"

namespace simulated_gpu {

std::unique_ptr<reshard::exchange::Gpus> simulated_gpus();

}  // namespace simulated_gpu
