#include "reshard/exchange/nccl/nccl_gpus.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/exchange/cuda/cuda_error.hpp"
#include "reshard/exchange/device_assignment.hpp"
#include "reshard/exchange/nccl/nccl_device.hpp"

namespace reshard::exchange {
namespace {

std::string built_cuda_version() {
  return fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

/// The GPUs that this process sees, or why none.
struct Visible {
  std::vector<DeviceId> ids;
  std::string problem;
};

Visible visible_devices() {
  int count = 0;  // stays as it is where there is no driver
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorInsufficientDriver)
    return {{}, fmt::format("no GPU: there is no NVIDIA driver, or it is older than CUDA {}", built_cuda_version())};
  if (counted == cudaErrorNoDevice || (counted == cudaSuccess && count == 0))
    return {{}, "no GPU: the NVIDIA driver shows none (CUDA_VISIBLE_DEVICES may hide them)"};
  if (counted != cudaSuccess) return {{}, "no GPU: " + cuda::failure_text(counted, "cudaGetDeviceCount")};
  Visible out;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    const cudaError_t result = cudaGetDeviceProperties(&properties, device);
    if (result != cudaSuccess) return {{}, "no GPU: " + cuda::failure_text(result, "cudaGetDeviceProperties")};
    DeviceId id;
    for (const char byte : properties.uuid.bytes) id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    out.ids.push_back(id);
  }
  return out;
}

/// What a process tells the others: a line for each GPU, or "!" and why there is none.
std::string encode(const Visible& visible) {
  if (!visible.problem.empty()) return "!" + visible.problem;
  std::string out;
  for (const DeviceId& id : visible.ids) out += id + "\n";
  return out;
}

Visible decode(std::string_view text) {
  if (text.starts_with('!')) return {{}, std::string(text.substr(1))};
  Visible out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    out.ids.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return out;
}

/// Numbers with blanks between them.
std::vector<std::int64_t> numbers_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::int64_t>(in), {}};
}

/// The problem of the lowest process that has one; it is named where not all have the same.
std::optional<std::string> common_problem(const std::vector<Visible>& all) {
  std::optional<std::size_t> first;
  bool same = true;
  for (std::size_t process = 0; process < all.size(); ++process) {
    if (!all[process].problem.empty() && !first) first = process;
    same = same && all[process].problem == all.front().problem;
  }
  if (!first) return std::nullopt;
  if (same) return all.front().problem;
  return fmt::format("{} (process {} of {})", all[*first].problem, *first, all.size());
}

/// Refuses what some process's GPU has not free, with what the fullest of them would hold: one message for all.
void check_free(Communicator& communicator, DeviceMemory memory, std::int64_t free_bytes) {
  const std::int64_t table_bytes = kDeviceSlots * memory.tasks * static_cast<std::int64_t>(sizeof(CopyTask));
  const std::int64_t needed_bytes = kDeviceSlots * memory.device_bytes + table_bytes;
  std::string worst;
  std::int64_t least = 0;
  for (const std::string& text : communicator.all_gather(
           needed_bytes <= free_bytes ? "" : fmt::format("{} {} {}", needed_bytes, free_bytes, table_bytes))) {
    if (text.empty()) continue;
    const std::vector<std::int64_t> numbers = numbers_of(text);
    const std::int64_t fits = std::max<std::int64_t>(0, numbers[1] - numbers[2]);
    if (!worst.empty() && fits >= least) continue;
    least = fits;
    worst = fmt::format(
        "a GPU has {} bytes free, the rounds on it take {}: give --device-memory {} or less, or free GPU memory",
        numbers[1], numbers[0], fits);
  }
  if (!worst.empty()) throw AgreedError(Error(Issue{ErrorCode::kMemory, "", kNoTensor, worst}));
}

class NcclGpus : public Gpus {
 public:
  std::string cuda_version() const override { return built_cuda_version(); }

  std::string nccl_version() const override { return fmt::format("{}.{}.{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH); }

  std::optional<std::string> refusal(Communicator& communicator) override {
    device_.reset();
    std::vector<Visible> all;
    for (const std::string& text : communicator.all_gather(encode(visible_devices()))) all.push_back(decode(text));
    if (std::optional<std::string> problem = common_problem(all)) return problem;
    std::vector<std::vector<DeviceId>> ids;
    for (Visible& visible : all) ids.push_back(std::move(visible.ids));
    const DeviceAssignment assignment = assign_devices(ids);
    if (const std::optional<DeviceShortage> shortage = assignment.shortage)
      return fmt::format(
          "too few GPUs: {} processes share {} GPU{}, and each needs one of its own; start at most as many processes "
          "on a node as it has GPUs",
          shortage->processes, shortage->devices, shortage->devices == 1 ? "" : "s");
    device_ = assignment.devices[static_cast<std::size_t>(communicator.rank())];
    return std::nullopt;
  }

  std::unique_ptr<Device> open(Communicator& communicator, DeviceMemory memory,
                               std::chrono::milliseconds patience) override {
    if (!device_) internal_error("a GPU is opened that has not been asked for");
    std::size_t free = 0;
    agreed(communicator, [&] {
      cuda::check(cudaSetDevice(*device_), "cudaSetDevice");
      std::size_t total = 0;
      cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    });
    check_free(communicator, memory, static_cast<std::int64_t>(free));
    std::unique_ptr<NcclDevice> device;
    agreed(communicator, [&] { device = std::make_unique<NcclDevice>(communicator, memory, patience); });
    const std::string id = new_id(communicator);
    bool connected = false;
    agreed(communicator, [&] { connected = device->connect(id); });
    if (!connected) internal_error("an alarm without an error");
    return device;
  }

 private:
  std::optional<int> device_;
};

}  // namespace

std::unique_ptr<Gpus> nccl_gpus() {
  return std::make_unique<NcclGpus>();
}

}  // namespace reshard::exchange
