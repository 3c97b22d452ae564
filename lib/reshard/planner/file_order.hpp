#pragma once
// In which order target files stand on the line that processes share (target_map.hpp). Files of equal shards (replicas,
// repeated heads) that one process writes are read and sent once for all of them.
//
// Greedy, after the relabelling of COSTA (Kabic, Pintarelli, Kozhevnikov, VandeVondele, "COSTA: Communication-Optimal
// Shuffle and Transpose Algorithm with Process Relabeling", 2021), which gives target blocks to the processes that have
// most of their bytes. Here any process can read any source byte, so what counts is what target files have in common:
//
//   axes dp=2, tp=2 on 2 processes: files 0 and 2 hold the same, 1 and 3 do
//   line 0 1 | 2 3: every process needs all bytes; line 0 2 | 1 3: each needs half

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reshard/planner/binding.hpp"

namespace reshard::planner {

/// File numbers in line order. `file_of_rank`: of every target rank; files are numbered 0 .. file_bytes.size() - 1. The
/// next file is the one that has most bytes in common with those that the process has already, the lowest number on
/// ties, so that nothing moves where files have nothing in common. Cost O((ranks + processes) x layouts x log).
std::vector<std::size_t> file_order(const BoundPlan& bound, std::span<const std::size_t> file_of_rank,
                                    std::span<const std::int64_t> file_bytes, int processes);

}  // namespace reshard::planner
