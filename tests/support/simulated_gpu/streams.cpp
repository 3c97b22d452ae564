#include "support/simulated_gpu/streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "support/simulated_gpu/faults.hpp"
#include "support/simulated_gpu/memory.hpp"

namespace simulated_gpu {
namespace {

thread_local int device_of_thread = 0;

/// In the order in which they were made, so that a seed brings the same again.
std::vector<cudaStream_t>& streams() {
  static std::vector<cudaStream_t> all;
  return all;
}

bool is_stream(cudaStream_t stream) {
  return std::find(streams().begin(), streams().end(), stream) != streams().end();
}

std::set<cudaEvent_t>& events() {
  static std::set<cudaEvent_t> all;
  return all;
}

std::uint32_t draw(std::uint32_t below) {
  static std::mt19937 generator(machine().seed + static_cast<std::uint32_t>(process()) * 1000);
  return static_cast<std::uint32_t>(generator() % below);
}

bool overlap(const HostRange& a, const HostRange& b) {
  return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

bool is_read_by_a_queued_copy(const HostRange& range) {
  for (cudaStream_t stream : streams())
    for (const Step& step : stream->steps)
      if (step.reads.bytes > 0 && overlap(step.reads, range)) return true;
  return false;
}

/// Poisons where the step writes, unless that is still read or was poisoned before.
void poison_destination(Step& step) {
  if (step.writes.bytes == 0 || is_read_by_a_queued_copy(step.writes)) return;
  std::fill_n(step.writes.begin, step.writes.bytes, kEarlyRead);
  step.writes = {};
}

/// Whether a step of the stream was done.
bool advance(cudaStream_t stream) {
  if (!stream->steps.front().advance()) return false;
  const HostRange was_read = stream->steps.front().reads;
  stream->steps.pop_front();
  if (was_read.bytes == 0) return true;
  for (cudaStream_t other : streams())
    for (Step& step : other->steps)
      if (overlap(step.writes, was_read)) poison_destination(step);
  return true;
}

/// Whether a step of any stream was done, the first one that is drawn and can.
bool advance_any() {
  std::vector<cudaStream_t> busy;
  for (cudaStream_t stream : streams())
    if (!stream->steps.empty()) busy.push_back(stream);
  while (!busy.empty()) {
    const auto drawn = busy.begin() + draw(static_cast<std::uint32_t>(busy.size()));
    if (advance(*drawn)) return true;
    busy.erase(drawn);
  }
  return false;
}

/// As the runtime takes work: of a failed call, of a stream of another device.
cudaError_t check_call(const char* name, cudaStream_t stream) {
  if (call(name) == Fate::kFails) return cudaErrorIllegalAddress;
  if (!is_stream(stream)) misuse(fmt::format("{}: this is no stream", name));
  return stream->device == current_device() ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

}  // namespace

void enqueue(cudaStream_t stream, Step step) {
  if (stream->blocked != nullptr) misuse(fmt::format("work is queued on a stream {}", stream->blocked));
  poison_destination(step);
  stream->steps.push_back(std::move(step));
}

void advance_some() {
  for (std::uint32_t steps = draw(32); steps > 0; --steps)
    if (!advance_any()) return;
}

void advance_all() {
  while (advance_any()) {
  }
}

bool is_work_queued() {
  return std::any_of(streams().begin(), streams().end(), [](cudaStream_t stream) { return !stream->steps.empty(); });
}

void block(cudaStream_t stream, const char* reason) {
  stream->blocked = reason;
}

void unblock(cudaStream_t stream) {
  stream->blocked = nullptr;
}

void check_stream(cudaStream_t stream, const char* who) {
  if (!is_stream(stream)) misuse(fmt::format("{}: this is no stream", who));
  if (stream->device != current_device()) misuse(fmt::format("{}: the stream is of another device", who));
}

int current_device() {
  return machine().devices.at(static_cast<std::size_t>(device_of_thread));
}

std::size_t live_streams_and_events() {
  return streams().size() + events().size();
}

}  // namespace simulated_gpu

using namespace simulated_gpu;

cudaError_t cudaSetDevice(int device) {
  if (call("cudaSetDevice") == Fate::kFails) return cudaErrorUnknown;
  if (device < 0 || device >= static_cast<int>(machine().devices.size())) return cudaErrorInvalidDevice;
  device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  if (call("cudaStreamCreateWithFlags") == Fate::kFails) return cudaErrorUnknown;
  if (flags != cudaStreamNonBlocking) misuse("a stream that waits for the default stream");
  *stream = new CUstream_st{current_device(), nullptr, {}};
  streams().push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (std::erase(streams(), stream) == 0) misuse("cudaStreamDestroy: this is no stream");
  if (!stream->steps.empty()) misuse("a stream is destroyed with work in it");
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (const cudaError_t result = check_call("cudaStreamWaitEvent", stream); result != cudaSuccess) return result;
  if (!events().contains(event)) misuse("cudaStreamWaitEvent: this is no event");
  if (event->happened) enqueue(stream, {[happened = event->happened] { return *happened; }, {}, {}});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  if (call("cudaEventCreateWithFlags") == Fate::kFails) return cudaErrorUnknown;
  *event = new CUevent_st;
  events().insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (events().erase(event) == 0) misuse("cudaEventDestroy: this is no event");
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t result = check_call("cudaEventRecord", stream); result != cudaSuccess) return result;
  if (!events().contains(event)) misuse("cudaEventRecord: this is no event");
  event->happened = std::make_shared<bool>(false);
  enqueue(stream, {[happened = event->happened] { return *happened = true; }, {}, {}});
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (call("cudaEventQuery") == Fate::kFails) return cudaErrorIllegalAddress;
  if (!events().contains(event)) misuse("cudaEventQuery: this is no event");
  if (event->happened && !*event->happened) advance_some();
  return event->happened && !*event->happened ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  constexpr const char* name = "cudaMemcpyAsync";
  if (const cudaError_t result = check_call(name, stream); result != cudaSuccess) return result;
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost) misuse("a copy that is neither up nor down");
  if (bytes == 0) misuse("a copy of no bytes");
  const bool up = kind == cudaMemcpyHostToDevice;
  const void* on_host = up ? from : to;
  const void* on_device = up ? to : from;
  holder(MemoryKind::kPinned, on_host, bytes, name);
  if (holder(MemoryKind::kDevice, on_device, bytes, name).device != stream->device)
    misuse("a copy of memory of another device");
  auto* host = static_cast<std::byte*>(const_cast<void*>(on_host));
  Step step;
  (up ? step.reads : step.writes) = {host, bytes};
  step.advance = [to, from, bytes, on_host, on_device] {
    holder(MemoryKind::kPinned, on_host, bytes, name);
    const Access access(holder(MemoryKind::kDevice, on_device, bytes, name));
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
    return true;
  };
  enqueue(stream, std::move(step));
  return cudaSuccess;
}
