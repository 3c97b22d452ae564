#pragma once
// Transfers as the case files write them: each element read from the lowest rank that holds it, boxes joined where they
// are neighbours in tensor, source shard and target shard.

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "reshard/base/value.hpp"
#include "reshard/planner/readers.hpp"
#include "reshard/planner/transfers.hpp"

namespace reshard::cases {

using planner::Box;
using planner::Transfer;

/// Stored positions of global [begin, begin + length) in a shard that holds them in one run.
inline std::optional<layout::Index> stored_position(const layout::DimShard& shard, layout::Index begin,
                                                    layout::Index length) {
  for (const layout::Run& run : shard.runs)
    if (run.global <= begin && begin + length <= run.global + run.length) return run.stored + (begin - run.global);
  return std::nullopt;
}

inline const layout::DimShard& shard_of(const layout::TensorLayout& layout, layout::Index rank, std::size_t dim) {
  const layout::DimLayout& d = layout.dims[dim];
  return d.shard_of(rank);
}

/// Global index behind a stored position that holds an element.
inline layout::Index global_position(const layout::DimShard& shard, layout::Index stored) {
  for (const layout::Run& run : shard.runs)
    if (run.stored <= stored && stored < run.stored + run.length) return run.global + (stored - run.stored);
  return -1;
}

/// The same transfers, every box read from the lowest source rank that holds it whole.
inline std::vector<Transfer> from_lowest_holder(std::vector<Transfer> moves, const layout::TensorLayout& source,
                                                const layout::TensorLayout& target) {
  for (Transfer& move : moves) {
    for (layout::Index rank = 0; rank < source.ranks; ++rank) {
      if (!source.is_present(rank)) continue;
      Box box;
      for (std::size_t d = 0; d < move.target_box.size(); ++d) {
        const auto [begin, end] = move.target_box[d];
        const auto at = stored_position(shard_of(source, rank, d),
                                        global_position(shard_of(target, move.target_rank, d), begin), end - begin);
        if (at) box.push_back({*at, *at + (end - begin)});
      }
      if (box.size() != move.target_box.size()) continue;
      move.source_rank = rank;
      move.source_box = box;
      break;
    }
  }
  return moves;
}

/// Joins boxes that continue each other along one dim after the other, the last first. `across`: also where the tensor
/// does not continue.
inline std::vector<Transfer> joined(std::vector<Transfer> moves, const layout::TensorLayout& target,
                                    bool across = false) {
  const std::size_t dims = target.dims.size();
  for (std::size_t d = dims; d-- > 0;) {
    const auto key = [&](const Transfer& m) {
      Box rest = m.target_box;
      rest[d] = {};
      return std::tuple(m.target_rank, rest, m.target_box[d].begin);
    };
    std::sort(moves.begin(), moves.end(), [&](const Transfer& a, const Transfer& b) { return key(a) < key(b); });
    std::vector<Transfer> out;
    for (const Transfer& move : moves) {
      bool continues =
          !out.empty() && out.back().source_rank == move.source_rank && out.back().target_rank == move.target_rank;
      if (continues) {
        Transfer& last = out.back();
        const layout::DimShard& shard = shard_of(target, move.target_rank, d);
        continues = last.target_box[d].end == move.target_box[d].begin &&
                    last.source_box[d].end == move.source_box[d].begin &&
                    (across || global_position(shard, last.target_box[d].end - 1) + 1 ==
                                   global_position(shard, move.target_box[d].begin));
        for (std::size_t e = 0; e < dims && continues; ++e)
          continues = e == d || (last.target_box[e] == move.target_box[e] && last.source_box[e] == move.source_box[e]);
        if (continues) {
          last.target_box[d].end = move.target_box[d].end;
          last.source_box[d].end = move.source_box[d].end;
        }
      }
      if (!continues) out.push_back(move);
    }
    moves = std::move(out);
  }
  std::sort(moves.begin(), moves.end(), [](const Transfer& a, const Transfer& b) {
    return std::tie(a.target_rank, a.target_box) < std::tie(b.target_rank, b.target_box);
  });
  return moves;
}

inline Box read_box(const Value& list) {
  Box out;
  for (const Value& pair : list.array()) out.push_back({pair.array()[0].integer(), pair.array()[1].integer()});
  return out;
}

/// [source rank, target rank, source box, target box], beginning at entry `first`.
inline Transfer read_transfer(const Value& list, std::size_t first = 0) {
  const Value::Array& entries = list.array();
  return {entries[first].integer(), entries[first + 1].integer(), read_box(entries[first + 2]),
          read_box(entries[first + 3])};
}

/// Plans and proves one tensor.
inline std::vector<Transfer> plan(const layout::TensorLayout& source, const layout::TensorLayout& target) {
  const planner::TensorToRead tensor{&source, 1};
  const auto sources = planner::choose_sources({&tensor, 1});
  planner::prove_coverage(source, target, sources.front());
  return planner::list_transfers(source, target, sources.front());
}

}  // namespace reshard::cases
