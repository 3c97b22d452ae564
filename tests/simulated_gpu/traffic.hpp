#pragma once
// Rounds of messages between all processes, made of a seed: what a process gives to its GPU, and what must come back.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "reshard/exchange/device.hpp"

namespace reshard::simulated_test {

/// Bytes from one process to another in a round; 0 for no message.
using Sizes = std::function<std::int64_t(int round, int from, int to)>;

/// Of the kind of round above: up from pinned memory, packed in reverse order of the peers, exchanged, unpacked, down.
class Traffic {
 public:
  /// `largest`: no size is more.
  Traffic(int rank, int processes, std::int64_t largest, Sizes sizes);

  exchange::DeviceMemory memory() const;
  /// Writes what this process sends into the slot's host memory.
  exchange::DeviceRound prepare(int round, std::span<std::byte> host) const;
  /// Bytes in the slot's host memory that are not as they should be after the round.
  std::int64_t wrong_bytes(int round, std::span<const std::byte> host) const;
  /// To other processes, in one round.
  std::int64_t bytes_sent(int round) const;

 private:
  std::int64_t area() const { return processes_ * stride_; }

  int rank_;
  int processes_;
  std::int64_t stride_;  ///< between the messages of two peers, wherever they lie
  Sizes sizes_;
};

/// A hash of the numbers.
std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0, std::uint64_t d = 0);

/// Between 0 and `largest`, a quarter of them 0.
Sizes random_sizes(std::uint64_t seed, std::int64_t largest);

}  // namespace reshard::simulated_test
