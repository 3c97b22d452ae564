#pragma once
// `reshard compare`: are two checkpoints the same tensors, whatever their layouts and formats?

#include <atomic>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"
#include "reshard/base/file.hpp"
#include "reshard/exchange/communicator.hpp"
#include "reshard/pipeline/formats.hpp"
#include "reshard/pipeline/log.hpp"

namespace reshard::pipeline {

struct CompareOptions {
  fs::path a;
  fs::path b;
  /// `a` is laid out as its source, `b` as its target; names and dtypes are compared as a run would write them. Without
  /// a plan each side has a manifest or is of one rank.
  std::optional<fs::path> plan;
  bool allow_external = false;
  int threads = 1;
  const volatile std::sig_atomic_t* interrupted = nullptr;
  std::atomic<std::int64_t>* progress_bytes = nullptr;
  /// Set to the bytes that one process compares, for a progress line.
  std::atomic<std::int64_t>* progress_total = nullptr;
  Log log = [](std::string_view) {};
};

/// In what the two sides of a tensor differ.
enum class Quality { kDtype, kShape, kValue };

std::string_view name(Quality quality);

struct TensorDifference {
  std::string tensor;
  Quality what = Quality::kValue;
  std::optional<Shape> at;  ///< of a value: the coordinates of the first element that differs, row-major
  std::string a;            ///< dtype, shape or value as text, a value in the dtype of `b`
  std::string b;
  std::string file_a;  ///< relative to the checkpoint
  std::string file_b;

  friend bool operator==(const TensorDifference&, const TensorDifference&) = default;
};

struct CompareResult {
  fs::path a;
  fs::path b;
  std::int64_t equal = 0;
  std::vector<std::string> only_in_a;  ///< in bytewise order, as the next
  std::vector<std::string> only_in_b;
  std::vector<TensorDifference> different;  ///< by tensor; texts of values on process 0 alone
  std::vector<Warning> warnings;

  bool same() const { return only_in_a.empty() && only_in_b.empty() && different.empty(); }
};

/// Every copy on either side is compared, padding on none. Collective; all processes get the same verdict. Errors:
/// kUsage (no plan, and a side that needs one); what a plan and `a` can have wrong; what either checkpoint can;
/// kIo, kInterrupted.
CompareResult compare(const CompareOptions& options, const Formats& formats, exchange::Communicator& communicator);

}  // namespace reshard::pipeline
