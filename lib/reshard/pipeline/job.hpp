#pragma once
// What the workers of a run share: the plan of the moves, where bytes come from and go to, and how they stop.

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "reshard/exchange/communicator.hpp"
#include "reshard/pipeline/hooks.hpp"
#include "reshard/pipeline/ledger.hpp"
#include "reshard/pipeline/source.hpp"
#include "reshard/pipeline/target_writer.hpp"
#include "reshard/planner/binding.hpp"
#include "reshard/planner/target_map.hpp"
#include "reshard/planner/work.hpp"

namespace reshard::pipeline {

struct Job {
  const planner::BoundPlan& bound;
  const std::vector<planner::WorkTensor>& work;  ///< parallel to bound.tensors
  const SourceCheckpoint& source;
  SourceReaders& readers;
  const planner::TargetMap& targets;
  TargetWriter& writer;
  Ledger& ledger;
  exchange::Communicator& communicator;
  std::int64_t memory_bytes = 0;
  int threads = 1;
  /// The only one that may call the communicator.
  std::thread::id main_thread = std::this_thread::get_id();
  Hooks* hooks = nullptr;
  /// Number of the signal that asks the run to end; 0 while none has come.
  const volatile std::sig_atomic_t* interrupted = nullptr;
  /// Bytes written so far, for a progress line.
  std::atomic<std::int64_t>* progress_bytes = nullptr;
};

/// What a run says that ends before its target is complete.
inline constexpr std::string_view kKeptText = "what was written is kept beside the target, --resume continues it";

/// Throws kInterrupted (exit 128 + signal) when a signal has come. `interrupted`: its number, 0 before; may be null.
/// `kept`: what is left behind.
void check_interrupted(const volatile std::sig_atomic_t* interrupted, std::string_view kept);
void check_interrupted(const Job& job);

/// Reads one source part of a tile into `out`: the wanted columns of every row, `columns` apart, or, where rows are
/// short, all from the first wanted element to the last, `row_elements` apart. Says which by `reads_rows`.
bool reads_rows(const planner::SourcePart& part, std::int64_t element_bytes);
std::int64_t read_bytes(const planner::SourcePart& part, std::int64_t element_bytes);
/// How many reads of a file that takes.
std::int64_t reads(const planner::SourcePart& part, std::int64_t element_bytes);
void read_part(SourceReaders& readers, const SourceLocation& location, const planner::SourcePart& part,
               std::int64_t element_bytes, std::span<std::byte> out);
void read_part(const Job& job, std::size_t tensor, const planner::SourcePart& part, std::span<std::byte> out);

/// The copies of a tile with source offsets and pitches as read_part lays its buffers out, flattened.
std::vector<layout::CopyBox> buffer_copies(const planner::Tile& tile, std::int64_t source_element_bytes);

/// Fills the padding of a target part, the `target`-th of its tile, where it is not zero; zeros are the buffer's to
/// have already.
void fill_padding(const planner::Tile& tile, std::size_t target, const planner::WorkTensor& work,
                  std::span<std::byte> buffer);

/// Digests of one target part from its own buffer against what was read for it. Errors: kDigest naming the tensor and
/// ranks.
void check_target(const Job& job, std::size_t tensor, const planner::TargetPart& part, std::uint64_t read_register,
                  std::uint64_t write_register);

/// Writes it and counts it as progress.
void write_target(const Job& job, std::size_t tensor, const planner::TargetPart& part,
                  std::span<const std::byte> bytes);

/// Registers of the elements that are to be converted: as they were read, and as they are found. Errors: kDigest.
void check_before_conversion(const Job& job, std::size_t tensor, std::uint64_t as_read, std::uint64_t as_found);

/// Converts packed elements of a box to the target's dtype; returns the register of what came out. What goes in is
/// checked against `as_read`, its register in the read buffer (kDigest).
std::uint64_t convert_packed(const Job& job, const layout::CopyBox& box, std::size_t tensor, std::uint64_t as_read,
                             std::span<const std::byte> packed, std::span<std::byte> converted);

/// Calls work(i) for i in [0, count) on `threads` threads; the first error stops the rest and is thrown.
void parallel_for(int threads, std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace reshard::pipeline
