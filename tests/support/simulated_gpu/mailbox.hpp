#pragma once
// Bytes between the processes of the simulated machine, over a communicator of its own in MPI, never waiting.

#include <cstddef>
#include <memory>
#include <vector>

namespace simulated_gpu {

/// Makes the communicator; nothing where MPI does not run. Collective; before the first ncclCommInitRankConfig of more
/// than one process.
void connect();

/// Processes that can be reached.
int processes();

/// A message on its way.
class Letter {
 public:
  virtual ~Letter() = default;
  virtual bool is_done() = 0;
  /// What has come, once it is done.
  virtual const std::vector<std::byte>& bytes() const = 0;
};

std::unique_ptr<Letter> send(int peer, int tag, std::vector<std::byte> bytes);
/// Of exactly so many bytes.
std::unique_ptr<Letter> receive(int peer, int tag, std::size_t bytes);

/// Whether a message from anyone has come that nobody receives.
bool is_waiting(int tag);

}  // namespace simulated_gpu
