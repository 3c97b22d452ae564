#include "simulated_gpu/traffic.hpp"

#include "reshard/exchange/copy_task.hpp"

namespace reshard::simulated_test {
namespace {

using exchange::CopyTask;

std::byte content(int round, int from, int to, std::int64_t at) {
  return static_cast<std::byte>(mix(static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(from * 100 + to),
                                    static_cast<std::uint64_t>(at)));
}

CopyTask move(std::int64_t source, std::int64_t target, std::int64_t bytes) {
  CopyTask task;
  task.source = source;
  task.target = target;
  task.run_elements = bytes;
  return task;
}

}  // namespace

Traffic::Traffic(int rank, int processes, std::int64_t largest, Sizes sizes)
    : rank_(rank),
      processes_(processes),
      stride_((largest + exchange::kDeviceAlignment) / exchange::kDeviceAlignment * exchange::kDeviceAlignment),
      sizes_(std::move(sizes)) {}

exchange::DeviceMemory Traffic::memory() const {
  return {area(), 4 * area(), 2 * processes_};
}

exchange::DeviceRound Traffic::prepare(int round, std::span<std::byte> host) const {
  exchange::DeviceRound out;
  // On the device: uploads, messages out, messages in, downloads. On the host what goes up and what comes down share
  // their place.
  for (int peer = 0; peer < processes_; ++peer) {
    const std::int64_t here = peer * stride_;
    const std::int64_t reversed = (processes_ - 1 - peer) * stride_;
    const std::int64_t going = sizes_(round, rank_, peer);
    const std::int64_t coming = sizes_(round, peer, rank_);
    for (std::int64_t i = 0; i < going; ++i) host[static_cast<std::size_t>(here + i)] = content(round, rank_, peer, i);
    // Those of no bytes are left to the device to leave out.
    out.uploads.push_back({here, here, going});
    if (going > 0) out.pack.push_back(move(here, area() + reversed, going));
    out.sends.push_back({peer, area() + reversed, going});
    out.receives.push_back({peer, 2 * area() + here, coming});
    if (coming > 0) out.unpack.push_back(move(2 * area() + here, 3 * area() + reversed, coming));
    out.downloads.push_back({here, 3 * area() + reversed, coming});
  }
  return out;
}

std::int64_t Traffic::wrong_bytes(int round, std::span<const std::byte> host) const {
  std::int64_t wrong = 0;
  for (int peer = 0; peer < processes_; ++peer)
    for (std::int64_t i = 0; i < sizes_(round, peer, rank_); ++i)
      if (host[static_cast<std::size_t>(peer * stride_ + i)] != content(round, peer, rank_, i)) ++wrong;
  return wrong;
}

std::int64_t Traffic::bytes_sent(int round) const {
  std::int64_t sum = 0;
  for (int peer = 0; peer < processes_; ++peer)
    if (peer != rank_) sum += sizes_(round, rank_, peer);
  return sum;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  std::uint64_t hash = 0x9e3779b97f4a7c15;
  for (const std::uint64_t value : {a, b, c, d}) {
    hash = (hash ^ value) * 0xbf58476d1ce4e5b9;
    hash ^= hash >> 29;
  }
  return hash;
}

Sizes random_sizes(std::uint64_t seed, std::int64_t largest) {
  return [=](int round, int from, int to) -> std::int64_t {
    const std::uint64_t drawn =
        mix(seed, static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to));
    return drawn % 4 == 0 ? 0 : static_cast<std::int64_t>(drawn / 4 % static_cast<std::uint64_t>(largest + 1));
  };
}

}  // namespace reshard::simulated_test
