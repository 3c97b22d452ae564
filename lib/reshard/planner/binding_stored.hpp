#pragma once
// What the ranks of a source store of one tensor, checked for agreement among them and against the plan's layout.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"
#include "reshard/layout/tensor_layout.hpp"
#include "reshard/planner/catalog.hpp"

namespace reshard::planner {

/// A fault of one tensor of a unit (`tensor`: its position there; 0 for a tensor that is cut on its own).
struct Fault {
  std::size_t tensor = 0;
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  friend bool operator==(const Fault&, const Fault&) = default;
};

/// Adds the issues of an error that the source or the plan is to blame for; throws any other error (input/output, a
/// broken invariant) again.
void add_faults(const Error& error, std::size_t tensor, const std::string& prefix, std::vector<Fault>& faults);

struct Stored {
  std::vector<Shape> by_rank;  ///< empty on absent ranks
  std::vector<bool> present;
  std::optional<Shape> recorded;
  Dtype dtype = Dtype::kU8;
  std::size_t rank_of_tensor = 0;  ///< number of dims
};

/// Faults: kDtype, kShape (numbers of dims or recorded global shapes differ).
Stored collect_stored(const std::vector<StoredRun>& runs, Index ranks, std::size_t tensor, std::vector<Fault>& faults);

/// kMissing where the ranks that store the tensor are not those that should (`expected`, empty: all). `owned`: whether
/// the plan says `owner` for it.
void check_presence(const Stored& stored, const std::vector<bool>& expected, bool owned, std::size_t tensor,
                    std::vector<Fault>& faults);

/// kShape where the layout's shards are not what the ranks store, or its shape not the recorded one.
void check_layout(const Stored& stored, const layout::TensorLayout& layout, std::size_t tensor,
                  std::vector<Fault>& faults);

/// What the target may have of bytes, so that files and shares of them are counted in 63 bits.
inline constexpr std::int64_t kMostTargetBytes = std::int64_t{1} << 62;

/// No fewer bytes than all ranks of the target store together of a tensor; kOverflow where they exceed the most.
std::int64_t target_bytes(const layout::TensorLayout& target, Dtype dtype, std::size_t tensor,
                          std::vector<Fault>& faults);

}  // namespace reshard::planner
