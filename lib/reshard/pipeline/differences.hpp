#pragma once
// The first element of each tensor that differs between copies: of two checkpoints, whatever their layouts and dtypes
// (compare), or of one (--check-replicas). Read tile by tile within the memory bound; padding is never compared.

#include <atomic>
#include <compare>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/exchange/communicator.hpp"
#include "reshard/layout/tensor_layout.hpp"
#include "reshard/pipeline/ledger.hpp"
#include "reshard/pipeline/source.hpp"

namespace reshard::pipeline {

/// A checkpoint to read from.
struct OpenCheckpoint {
  const SourceCheckpoint& files;
  SourceReaders& readers;
};

/// A tensor as a checkpoint has it.
struct HeldTensor {
  const layout::TensorLayout* layout = nullptr;
  std::string stored_name;
  Dtype dtype = Dtype::kU8;
};

/// Both have the same true shape.
struct TensorPair {
  HeldTensor one;
  HeldTensor other;
  /// Compared bit for bit in this dtype; a side that has another one is converted to it.
  Dtype as = Dtype::kU8;
  std::vector<planner::Index> sources;  ///< of choose_sources for `one`
};

struct DifferenceOptions {
  std::int64_t memory_bytes = std::int64_t{512} << 20;
  int threads = 1;
  Ledger* ledger = nullptr;  ///< counts what is read, where there is one
  const volatile std::sig_atomic_t* interrupted = nullptr;
  std::atomic<std::int64_t>* progress_bytes = nullptr;  ///< counts the bytes of copies compared
};

struct Difference {
  planner::Index element = 0;     ///< row-major position in the tensor
  planner::Index one_rank = 0;    ///< who holds it in `one`
  planner::Index other_rank = 0;  ///< and in `other`

  friend auto operator<=>(const Difference&, const Difference&) = default;
};

struct Differences {
  std::map<std::size_t, Difference> first;  ///< by number of the pair; pairs that are equal have none
  std::int64_t peak_bytes = 0;              ///< of this process's staging memory
};

/// Compares, for each pair, one copy of every element of `one` (that of `sources`) with every copy in `other`. Where
/// both checkpoints are the same one, what lies in the same file is not compared. Collective: the processes share the
/// tiles, and all get the same answer. Errors: kMemory naming the least that works, kIo, kFormat, kInterrupted.
Differences first_differences(const OpenCheckpoint& one, const OpenCheckpoint& other,
                              const std::vector<TensorPair>& pairs, const DifferenceOptions& options,
                              exchange::Communicator& communicator);

/// Whether some element is held by several ranks.
bool has_copies(const layout::TensorLayout& layout);

/// Coordinates of a row-major position.
Shape coordinates_of(const Shape& shape, planner::Index element);

}  // namespace reshard::pipeline
