#pragma once
// Owners of streams and events, on the device that is current where they are made. What is queued runs on; an owner
// that goes away does not wait for it.

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "reshard/exchange/cuda/cuda_error.hpp"

namespace reshard::exchange::cuda {

/// Marks a place in a stream.
class Event {
 public:
  Event() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    event_.reset(event);
  }
  cudaEvent_t get() const { return event_.get(); }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

/// A queue of work that waits for no other stream unless it is told to.
class Stream {
 public:
  Stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    stream_.reset(stream);
  }
  cudaStream_t get() const { return stream_.get(); }

  /// `event` happens when all that is queued so far is done.
  void record(const Event& event) { check(cudaEventRecord(event.get(), get()), "cudaEventRecord"); }
  /// What is queued from here on begins after `event`, as last recorded.
  void wait_for(const Event& event) { check(cudaStreamWaitEvent(get(), event.get(), 0), "cudaStreamWaitEvent"); }

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> stream_;
};

}  // namespace reshard::exchange::cuda
