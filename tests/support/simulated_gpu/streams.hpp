#pragma once
// Streams of the simulated machine: queues of steps. Nothing runs beside the program: steps run inside the calls that
// ask how far the work is, those of different streams in an order drawn by a seed. What is not ordered by events
// therefore comes out in either order.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

namespace simulated_gpu {

/// Pinned memory that a copy reads or writes.
struct HostRange {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

struct Step {
  /// Gets on with the work; true when it is done.
  std::function<bool()> advance;
  HostRange reads;
  HostRange writes;  ///< poisoned as soon as no copy before it reads there any more
};

/// Puts a step at the end of a stream.
void enqueue(cudaStream_t stream, Step step);

/// Lets some steps run: a few, or as many as can.
void advance_some();
void advance_all();

/// Whether anything is queued.
bool is_work_queued();

/// Steps are refused on this stream while `reason` says why. For a group of NCCL that may not be in the stream yet.
void block(cudaStream_t stream, const char* reason);
void unblock(cudaStream_t stream);

/// Ends the program unless this is a stream of the device that is current in this thread. `who` uses it.
void check_stream(cudaStream_t stream, const char* who);

int current_device();

/// Streams and events that have not been destroyed.
std::size_t live_streams_and_events();

}  // namespace simulated_gpu

/// What cudaStream_t and cudaEvent_t point to.
struct CUstream_st {
  int device = 0;
  const char* blocked = nullptr;
  std::deque<simulated_gpu::Step> steps;
};

struct CUevent_st {
  /// Of the last time that it was recorded; null before the first. Streams that wait for it keep it.
  std::shared_ptr<bool> happened;
};
