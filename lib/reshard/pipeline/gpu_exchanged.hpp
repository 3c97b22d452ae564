#pragma once
// The exchange between GPUs: every true source byte is read by one process into pinned memory, goes up to its GPU, is
// packed there, sent from GPU to GPU, unpacked and comes down to be written, in lockstep rounds (planner/rounds.hpp) of
// which two are in flight:
//
//   round 0   read | up, pack, exchange, unpack, down | write
//   round 1          read                             | up, pack, exchange, ...
//
// Digests are the host's, on its way in and out, so they cover GPU and NCCL; only they go by MPI, eight bytes a box.

#include <cstdint>
#include <memory>

#include "reshard/exchange/device.hpp"
#include "reshard/pipeline/exchanged.hpp"
#include "reshard/pipeline/job.hpp"

namespace reshard::pipeline {

/// The bound of the rounds in flight.
planner::RoundBound gpu_round_bound(std::int64_t memory_bytes, std::int64_t device_memory_bytes);

/// This process's GPU with the memory that its rounds take; `cost` is of gpu_round_bound. Collective, after
/// `Gpus::refusal` has found nothing. Errors, the same on every process: kDevice, kTransport, kMemory.
std::unique_ptr<exchange::Device> open_gpu(exchange::Gpus& gpus, exchange::Communicator& communicator,
                                           const ExchangeCost& cost);

/// Moves the selected tensors. Collective. An error in reading or writing on one process ends all at the next
/// agreement, with the same error. Returns the peak of this process's staging memory on the host. Errors: kIo, kFormat,
/// kDigest, kInterrupted; kDevice and kTransport are known to one process alone, which has to end the job.
std::int64_t run_gpu_exchanged(const Job& job, const ExchangeCost& cost, const planner::Selection& tensors,
                               exchange::Device& device);

}  // namespace reshard::pipeline
