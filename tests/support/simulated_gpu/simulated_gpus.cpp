#include "support/simulated_gpu/simulated_gpus.hpp"

#include "reshard/exchange/nccl/nccl_gpus.hpp"
#include "support/simulated_gpu/mailbox.hpp"

namespace simulated_gpu {
namespace {

using namespace reshard::exchange;

class SimulatedGpus : public Gpus {
 public:
  std::string cuda_version() const override { return gpus_->cuda_version() + " (simulated)"; }
  std::string nccl_version() const override { return gpus_->nccl_version() + " (simulated)"; }
  std::optional<std::string> refusal(Communicator& communicator) override {
    connect();
    return gpus_->refusal(communicator);
  }
  std::unique_ptr<Device> open(Communicator& communicator, DeviceMemory memory,
                               std::chrono::milliseconds patience) override {
    return gpus_->open(communicator, memory, patience);
  }

 private:
  std::unique_ptr<Gpus> gpus_ = nccl_gpus();
};

}  // namespace

std::unique_ptr<Gpus> simulated_gpus() {
  return std::make_unique<SimulatedGpus>();
}

}  // namespace simulated_gpu
