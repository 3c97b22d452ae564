// How fast bytes come to a GPU, move on it and come back, as JSON on standard output: copies of the library, and the
// kernel of copy tasks beside them. GB/s are 10^9 bytes of payload a second: what a copy on the device moves is read
// and written, and counts once.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "reshard/exchange/cuda/copy_kernels.hpp"

using namespace reshard;
using exchange::CopyTask;
using gpu_test::check;
using gpu_test::DeviceMemory;
using nlohmann::json;

namespace {

constexpr std::int64_t kPayload = std::int64_t{256} << 20;
constexpr std::int64_t kMaximumRow = std::int64_t{1} << 20;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The median of up to nine repeats, for a third of a second or three of them, after one that does not count.
double median_seconds(const std::function<void()>& queue) {
  queue();
  check(cudaDeviceSynchronize());
  std::vector<double> seconds;
  double total = 0;
  while (seconds.size() < 3 || (seconds.size() < 9 && total < 0.3)) {
    const auto start = std::chrono::steady_clock::now();
    queue();
    check(cudaDeviceSynchronize());
    seconds.push_back(seconds_since(start));
    total += seconds.back();
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

double gb_per_s(std::int64_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds / 1e9;
}

std::size_t size(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

layout::CopyBox rows(std::int64_t count, std::int64_t elements, std::int64_t pitch) {
  layout::CopyBox box;
  box.dims = {{count, pitch, elements, 1}, {elements, 1, 1, 1}};
  return box;
}

/// Tasks on the device, ready to be launched again and again.
class Launch {
 public:
  explicit Launch(std::vector<CopyTask> tasks)
      : count_(static_cast<std::int64_t>(tasks.size())),
        tiles_(exchange::number_tiles(tasks)),
        memory_(tasks.size() * sizeof(CopyTask)) {
    check(cudaMemcpy(memory_.data(), tasks.data(), tasks.size() * sizeof(CopyTask), cudaMemcpyHostToDevice));
  }
  void operator()(std::byte* memory, cudaStream_t stream) const {
    check(exchange::cuda::launch_copies(reinterpret_cast<const CopyTask*>(memory_.data()), count_, tiles_, memory,
                                        stream));
  }

 private:
  std::int64_t count_;
  std::int64_t tiles_;
  DeviceMemory memory_;
};

json device_description() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0));
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  return {{"name", properties.name},
          {"compute_capability", fmt::format("{}.{}", properties.major, properties.minor)},
          {"memory_bytes", properties.totalGlobalMem},
          {"multiprocessors", properties.multiProcessorCount},
          {"cuda_driver", driver},
          {"cuda_runtime", runtime}};
}

class Bandwidth {
 public:
  Bandwidth() : memory_(size(4 * kPayload)) {
    for (cudaStream_t& stream : streams_) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaMemset(memory_.data(), 1, size(4 * kPayload)));
  }

  json measures() {
    host();
    copies_ = median_seconds([&] { copy_device(); });
    add("device copy, cudaMemcpyAsync", gb_per_s(kPayload, copies_));
    add_kernel("device copy, kernel", {}, rows(1, kPayload, kPayload), 1, 0);
    add_kernel("device copy, kernel, 2 bytes off", {}, rows(1, kPayload, kPayload), 1, 2);
    add_kernel("f32 to bf16, kernel", exchange::Conversion{Dtype::kF32, Dtype::kBf16}, rows(1, kPayload / 4, 1), 4, 0);
    many_tasks();
    for (std::int64_t row = 16; row <= kMaximumRow; row *= 4) {
      add_rows(row, 0);
      add_rows(row, 2);
    }
    return std::move(measures_);
  }

 private:
  void add(const std::string& name, double rate, json more = json::object()) {
    more["name"] = name;
    more["gb_per_s"] = rate;
    measures_.push_back(std::move(more));
  }

  /// Of a measure on the device: with its share of what cudaMemcpyAsync reaches.
  void add_device(const std::string& name, double seconds, json more = json::object()) {
    more["share_of_device_copy"] = copies_ / seconds;
    add(name, gb_per_s(kPayload, seconds), std::move(more));
  }

  void copy_device() {
    check(cudaMemcpyAsync(memory_.data() + 2 * kPayload, memory_.data(), size(kPayload), cudaMemcpyDeviceToDevice,
                          streams_[0]));
  }

  void host() {
    const auto start = std::chrono::steady_clock::now();
    void* pinned = nullptr;
    check(cudaHostAlloc(&pinned, size(2 * kPayload), cudaHostAllocDefault));
    add("pinned allocation", gb_per_s(2 * kPayload, seconds_since(start)));
    auto* const up = static_cast<std::byte*>(pinned);
    std::byte* const down = up + kPayload;
    const auto h2d = [&] {
      check(cudaMemcpyAsync(memory_.data(), up, size(kPayload), cudaMemcpyHostToDevice, streams_[0]));
    };
    const auto d2h = [&] {
      check(cudaMemcpyAsync(down, memory_.data() + kPayload, size(kPayload), cudaMemcpyDeviceToHost, streams_[1]));
    };
    add("host to device", gb_per_s(kPayload, median_seconds(h2d)));
    add("device to host", gb_per_s(kPayload, median_seconds(d2h)));
    const double both = median_seconds([&] {
      h2d();
      d2h();
    });
    add("both at once, sum", gb_per_s(2 * kPayload, both));
    check(cudaFreeHost(pinned));
  }

  void add_kernel(const std::string& name, std::optional<exchange::Conversion> conversion, const layout::CopyBox& box,
                  std::int64_t element_bytes, std::int64_t misalignment) {
    std::vector<CopyTask> tasks;
    exchange::add_move(tasks, box, element_bytes, conversion, misalignment, 2 * kPayload + 16);
    const Launch launch(tasks);
    add_device(name, median_seconds([&] { launch(memory_.data(), streams_[0]); }));
  }

  /// The search for a tile's task costs most where there are many.
  void many_tasks() {
    constexpr std::int64_t kBytes = std::int64_t{16} << 10;
    std::vector<CopyTask> tasks;
    for (std::int64_t at = 0; at < kPayload; at += kBytes)
      exchange::add_move(tasks, rows(1, kBytes, kBytes), 1, {}, at, 2 * kPayload + at);
    const Launch launch(tasks);
    add_device(fmt::format("{} tasks of 16 KiB, kernel", tasks.size()),
               median_seconds([&] { launch(memory_.data(), streams_[0]); }));
  }

  /// Every other row is packed; the source begins so many bytes beyond a multiple of 16.
  void add_rows(std::int64_t row, std::int64_t misalignment) {
    const std::int64_t count = kPayload / row;
    std::vector<CopyTask> tasks;
    exchange::add_move(tasks, rows(count, row, 2 * row), 1, {}, misalignment, 2 * kPayload + 16);
    const Launch launch(tasks);
    const json more = {{"row_bytes", row}, {"misalignment", misalignment}};
    add_device("rows, kernel", median_seconds([&] { launch(memory_.data(), streams_[0]); }), more);
    const double seconds = median_seconds([&] {
      check(cudaMemcpy2DAsync(memory_.data() + 2 * kPayload + 16, size(row), memory_.data() + misalignment,
                              size(2 * row), size(row), size(count), cudaMemcpyDeviceToDevice, streams_[0]));
    });
    add_device("rows, cudaMemcpy2DAsync", seconds, more);
  }

  DeviceMemory memory_;  ///< the source takes up to half of it, the target begins there
  cudaStream_t streams_[2] = {};
  double copies_ = 0;  ///< seconds of a copy by the library
  json measures_ = json::array();
};

}  // namespace

int main() {
  if (const auto reason = gpu_test::no_gpu()) {
    fmt::print(stderr, "no GPU: not run ({})\n", *reason);
    return gpu_test::kSkipped;
  }
  try {
    const json out = {
        {"device", device_description()}, {"payload_bytes", kPayload}, {"measures", Bandwidth().measures()}};
    fmt::print("{}\n", out.dump(2));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
