#pragma once
// The processes of one run. One process alone needs no MPI (Alone); several talk through MPI (exchange/mpi).
//
// Every call but `raise_alarm`, `alarm_raised` and `abort` is collective: all processes call it in the same order, from
// one thread. Errors: kTransport where the library fails; the caller then ends the job with `abort`.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/base/process_rank.hpp"

namespace reshard::exchange {

/// Bytes for or from one other process in one round.
struct Message {
  ProcessRank peer = 0;
  std::span<std::byte> bytes;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual ProcessRank rank() const = 0;
  virtual int size() const = 0;
  /// Over how many nodes (that share memory) the processes are spread.
  virtual int nodes() = 0;
  virtual void barrier() = 0;
  /// Rank 0's bytes on every process.
  virtual std::string broadcast(std::string bytes) = 0;
  /// Every process's bytes, by rank.
  virtual std::vector<std::string> all_gather(std::string_view bytes) = 0;
  /// Element-wise XOR over all processes.
  virtual void all_xor(std::span<std::uint64_t> values) = 0;
  /// Element-wise sum over all processes.
  virtual void all_sum(std::span<std::int64_t> values) = 0;
  /// One round: at most one message per peer and direction, none to oneself; sizes agree on both ends. Messages larger
  /// than 1 GiB are refused (kInternal): the planner cuts rounds below that.
  virtual void exchange(std::span<const Message> sends, std::span<const Message> receives) = 0;
  /// Tells the others, without waiting, that this process has failed and they should come to the next agreement.
  virtual void raise_alarm() = 0;
  /// Whether any process has raised the alarm since the last agreement. Cheap enough to ask between tiles.
  virtual bool alarm_raised() = 0;
  /// Takes in every alarm sent; called by all in `agree`, after which alarm_raised() is false.
  virtual void clear_alarms() = 0;
  /// Ends all processes at once with this exit code: for failed transports and failed allocations, where no agreement
  /// is possible.
  [[noreturn]] virtual void abort(Exit exit) = 0;
};

/// One process, no MPI.
std::unique_ptr<Communicator> alone();

/// Whether all processes bring the same text. Collective.
bool same_everywhere(Communicator& communicator, std::string_view text);

/// An error that every process throws alike. Any other is known to one process alone, which must end the job: the
/// others wait for it.
class AgreedError : public Error {
 public:
  explicit AgreedError(const Error& error) : Error(error) {}
};

/// Ends a phase: if any process brings an error, all throw the same AgreedError: the issues of all processes, equal
/// ones once, prefixed with the process where only some have them, and the exit code of the lowest failing process.
/// Collective.
void agree(Communicator& communicator, const Error* error);

/// Runs `phase` and agrees on its outcome. Collective.
template <typename Phase>
void agreed(Communicator& communicator, Phase&& phase) {
  try {
    phase();
  } catch (const Error& error) {
    communicator.raise_alarm();
    agree(communicator, &error);
  }
  agree(communicator, nullptr);
}

}  // namespace reshard::exchange
