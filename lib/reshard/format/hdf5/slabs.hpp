#pragma once
// A range of row-major elements as boxes, which is what the library selects by.

#include <cstdint>
#include <vector>

#include "reshard/base/dtype.hpp"

namespace reshard::format::hdf5 {

struct Slab {
  Shape start;
  Shape count;

  std::int64_t elements() const;

  friend bool operator==(const Slab&, const Slab&) = default;
};

/// Elements [first, first + count) of `shape`, in order; at most two slabs per dim. Example: elements 2..9 of [3, 4]
/// are row 0 from column 2 (2 elements), row 1 (4), row 2 up to column 2 (2). A scalar is one slab without dims.
std::vector<Slab> slabs_of(const Shape& shape, std::int64_t first, std::int64_t count);

}  // namespace reshard::format::hdf5
