#pragma once
// The GPU transport of this executable: chosen where it is linked (gpus_none.cpp, gpus_nccl.cpp).

#include "reshard/exchange/device.hpp"

namespace reshard::app {

/// Null in a build without CUDA and NCCL.
exchange::Gpus* gpus();

}  // namespace reshard::app
