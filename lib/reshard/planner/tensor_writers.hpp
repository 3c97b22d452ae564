#pragma once
// Which processes write the shards of a tensor, and the pieces of them. Most shards lie in files that one process
// writes alone, so what is asked for every tile is found once for every tensor.

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "reshard/base/process_rank.hpp"
#include "reshard/planner/target_map.hpp"
#include "reshard/planner/work.hpp"

namespace reshard::planner {

class TensorWriters {
 public:
  /// `number` of the tensor in `targets`, which outlives this, as the tiling of `work` does.
  TensorWriters(const WorkTensor& work, std::size_t number, const TargetMap& targets);

  /// The processes that write some of a target part of the tensor's tiling, ascending.
  std::vector<ProcessRank> of(const TargetPart& part) const;
  /// Of every target part of a tile.
  std::vector<std::vector<ProcessRank>> of(const Tile& tile) const;

  /// Whether every file takes its shard from one process.
  bool one_for_each_file() const { return one_for_each_file_; }
  /// By shard: the processes that write whole files' copies of it, ascending.
  std::vector<std::vector<ProcessRank>> settled() const;

 private:
  struct Place {
    std::size_t file = 0;
    std::int64_t begin = 0;
  };
  struct Shard {
    std::vector<ProcessRank> settled;
    std::vector<Place> shared;  ///< copies of several processes
  };

  const TargetMap& targets_;
  std::int64_t element_bytes_;
  std::map<const Index*, Shard> shards_;  // by the ranks of a part: where its tiling keeps them
  bool one_for_each_file_ = true;
};

/// Of all tensors.
std::vector<TensorWriters> tensor_writers(std::span<const WorkTensor> work, const TargetMap& targets);

}  // namespace reshard::planner
