#include "reshard/planner/binding_pairs.hpp"

#include <cstdint>
#include <functional>

namespace reshard::planner {
namespace {

class Hash {
 public:
  void add(std::uint64_t value) {
    // splitmix64's finisher over a running sum: neighbouring shapes and part numbers must not collide.
    state_ += 0x9e3779b97f4a7c15u + value;
    state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9u;
    state_ ^= state_ >> 27;
  }
  void add(Index value) { add(static_cast<std::uint64_t>(value)); }
  void add(const layout::TensorLayout& layout) {
    add(layout.ranks);
    for (const Index extent : layout.shape) add(extent);
    add(std::hash<std::vector<bool>>{}(layout.present));
    for (const layout::DimLayout& dim : layout.dims) {
      for (const layout::DimShard& part : dim.parts) {
        add(part.stored_length);
        for (const layout::Run& run : part.runs) add(run.global);
      }
      for (const std::int32_t part : dim.part_of_rank) add(Index{part});
    }
  }
  std::size_t value() const { return static_cast<std::size_t>(state_); }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace

std::size_t LayoutPairs::index_of(LayoutPair pair) {
  Hash hash;
  hash.add(pair.source);
  hash.add(pair.target);
  const auto [begin, end] = by_hash_.equal_range(hash.value());
  for (auto known = begin; known != end; ++known) {
    const LayoutPair& other = pairs_[known->second];
    if (other.source == pair.source && other.target == pair.target && other.target_placement == pair.target_placement)
      return known->second;
  }
  by_hash_.emplace(hash.value(), pairs_.size());
  pairs_.push_back(std::move(pair));
  return pairs_.size() - 1;
}

}  // namespace reshard::planner
