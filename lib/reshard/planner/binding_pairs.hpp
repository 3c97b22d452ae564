#pragma once
// The distinct ways from source to target: thousands of tensors of a model share a few dozen.

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reshard/planner/binding.hpp"

namespace reshard::planner {

class LayoutPairs {
 public:
  /// The position of an equal pair, kept from the first time on.
  std::size_t index_of(LayoutPair pair);

  const LayoutPair& operator[](std::size_t index) const { return pairs_[index]; }

  std::vector<LayoutPair> take() { return std::move(pairs_); }

 private:
  std::vector<LayoutPair> pairs_;
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;
};

}  // namespace reshard::planner
