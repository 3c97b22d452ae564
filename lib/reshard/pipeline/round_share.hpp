#pragma once
// This process's share of one round, whatever memory the round's bytes go through: what it reads, which boxes go to
// which process and where they lie in the message, what it writes. Reading and writing, each with its digest, are the
// same for host and GPU; between them the mover (exchanged.cpp, gpu_exchanged.cpp) packs, sends and unpacks.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reshard/pipeline/job.hpp"
#include "reshard/planner/rounds.hpp"

namespace reshard::pipeline {

/// How boxes lie in a message: one after the other, each with so many bytes behind it, at a multiple of `alignment`.
struct MessageForm {
  std::int64_t trailer_bytes = 0;
  std::int64_t alignment = 1;
  bool to_itself = false;  ///< what a process reads for itself is a message as well
};

/// A source part that this process reads.
struct ShareRead {
  std::size_t tile = 0;
  std::size_t part = 0;
  std::int64_t bytes = 0;
  std::span<std::byte> buffer = {};
};

/// A box in a message.
struct ShareSlot {
  std::size_t tile = 0;
  std::size_t copy = 0;
  std::size_t peer = 0;
  std::int64_t offset = 0;  ///< in the message to or from the peer
};

/// A target part that this process writes.
struct ShareWrite {
  std::size_t tile = 0;
  std::size_t part = 0;
  std::int64_t bytes = 0;
  std::span<std::byte> buffer = {};
  std::vector<std::size_t> local = {};     ///< copies whose source this process reads, and that are no message
  std::vector<std::size_t> received = {};  ///< numbers in `receives`
};

class RoundShare {
 public:
  /// `tiles` of planner::Rounds. Buffers are not there yet: the mover sets those of `reads` and `writes`.
  RoundShare(const Job& job, std::vector<planner::RoundTile> tiles, MessageForm form);

  std::vector<ShareRead> reads;
  std::vector<std::pair<std::size_t, std::size_t>> read_copies;  ///< (tile, copy) of what this process reads
  std::vector<ShareSlot> sends;     ///< ascending by tile and copy, so that both ends of a message agree
  std::vector<ShareSlot> receives;  ///< likewise
  std::vector<ShareWrite> writes;
  std::vector<std::int64_t> send_bytes;     ///< of the message to each process
  std::vector<std::int64_t> receive_bytes;  ///< of the message from each process

  /// Fills the buffers of `reads` and takes the register of every box in them. Errors: kIo, kFormat, kMissing.
  void read();
  /// After the buffer of `write` holds what is to be written: its digests against `read_register`, the XOR of the
  /// registers of its copies as they were read (with `dtype`: as they were converted), then the file. Safe from several
  /// threads. Errors: kDigest, kIo.
  void write(const ShareWrite& write, std::uint64_t read_register) const;

  const planner::RoundTile& tile(std::size_t t) const { return tiles_[t]; }
  const planner::WorkTensor& work(std::size_t t) const { return job_.work[tiles_[t].id.tensor]; }
  const planner::BoundTensor& bound(std::size_t t) const { return job_.bound.tensors[tiles_[t].id.tensor]; }
  const std::string& name(std::size_t t) const { return bound(t).target_name; }
  const std::vector<layout::CopyBox>& copies(std::size_t t) const { return copies_[t]; }
  const layout::CopyBox& box(std::size_t t, std::size_t c) const { return copies_[t][c]; }
  /// Elements of the target of a box.
  std::int64_t packed_bytes(std::size_t t, std::size_t c) const;
  /// The read that holds a box's source; kNone where another process reads it.
  std::size_t read_of(std::size_t t, const layout::CopyBox& box) const { return source_reads_[t][box.source]; }
  std::span<const std::byte> source_of(std::size_t t, const layout::CopyBox& box) const {
    return reads[read_of(t, box)].buffer;
  }
  /// Of what this process has read.
  std::uint64_t& reg(std::size_t t, std::size_t c) { return registers_[t][c]; }
  std::uint64_t reg(std::size_t t, std::size_t c) const { return registers_[t][c]; }
  /// Tensor bytes that leave this process.
  std::int64_t bytes_sent() const;

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

 private:
  void plan_tile(std::size_t t, MessageForm form);

  const Job& job_;
  std::vector<planner::RoundTile> tiles_;
  ProcessRank me_ = 0;
  std::vector<std::vector<layout::CopyBox>> copies_;    // by tile
  std::vector<std::vector<std::uint64_t>> registers_;   // by tile and copy
  std::vector<std::vector<std::size_t>> source_reads_;  // by tile and source part: number in reads
};

}  // namespace reshard::pipeline
