#include "reshard/format/hdf5/slabs.hpp"

#include <algorithm>

namespace reshard::format::hdf5 {

std::int64_t Slab::elements() const {
  std::int64_t out = 1;
  for (const std::int64_t n : count) out *= n;
  return out;
}

std::vector<Slab> slabs_of(const Shape& shape, std::int64_t first, std::int64_t count) {
  const std::size_t rank = shape.size();
  // pitch[d]: elements of one step along dim d.
  std::vector<std::int64_t> pitch(rank, 1);
  for (std::size_t d = rank; d-- > 1;) pitch[d - 1] = pitch[d] * shape[d];

  std::vector<Slab> out;
  const std::int64_t end = first + count;
  while (first < end) {
    // The outermost dim along which whole steps can be taken from here, and how many before the dim above turns over.
    std::size_t dim = 0;
    while (dim < rank && (first % pitch[dim] != 0 || end - first < pitch[dim])) ++dim;
    Slab slab;
    std::int64_t rest = first;
    for (std::size_t d = 0; d < rank; ++d) {
      slab.start.push_back(rest / pitch[d]);
      rest %= pitch[d];
      slab.count.push_back(d > dim ? shape[d] : 1);
    }
    if (rank > 0) slab.count[dim] = std::min(shape[dim] - slab.start[dim], (end - first) / pitch[dim]);
    first += slab.elements();
    out.push_back(std::move(slab));
  }
  return out;
}

}  // namespace reshard::format::hdf5
