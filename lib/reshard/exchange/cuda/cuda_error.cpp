#include "reshard/exchange/cuda/cuda_error.hpp"

#include <fmt/format.h>

#include "reshard/base/error.hpp"

namespace reshard::exchange::cuda {

std::string failure_text(cudaError_t result, const char* call) {
  return fmt::format("{} failed: {} ({})", call, cudaGetErrorString(result), cudaGetErrorName(result));
}

void check(cudaError_t result, const char* call) {
  if (result != cudaSuccess) throw Error(Issue{ErrorCode::kDevice, "", kNoTensor, failure_text(result, call)});
}

}  // namespace reshard::exchange::cuda
