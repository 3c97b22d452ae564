#pragma once
// Results of the CUDA runtime as errors of ours.

#include <cuda_runtime_api.h>

#include <string>

namespace reshard::exchange::cuda {

/// "cudaMalloc failed: out of memory (cudaErrorMemoryAllocation)"
std::string failure_text(cudaError_t result, const char* call);

/// Throws kDevice unless `result` is a success.
void check(cudaError_t result, const char* call);

}  // namespace reshard::exchange::cuda
