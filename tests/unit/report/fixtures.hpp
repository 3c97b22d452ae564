#pragma once
// Small made-up results.

#include <cstdint>

#include "reshard/pipeline/plan_summary.hpp"

namespace reshard::test {

/// Two ranks to four; 6 + 2 tensors, three of them dropped.
inline pipeline::PlanHeader small_header() {
  pipeline::PlanHeader out;
  out.plan_digest = "995dc9bbdf1939fa";
  out.source = {{"tp=2"}, {}, 2, "hdf5", 320};
  out.target = {{"pp=2", "tp=2"}, {{"expert", {"ep=4"}}}, 4, "safetensors", 384};
  out.processes = 2;
  out.transport = "mpi";
  out.transport_why = "direct would read 4.00 bytes for each one that the target needs";
  out.totals = {3, 9, 320, 160, 384, 64, 1};
  out.estimate = {0.25, 0.125};
  out.memory_bound_bytes = std::int64_t{512} << 20;
  out.peak_staging_bytes = {1024, 2048};
  return out;
}

/// "w" [8, 4] cut by tp on dim 0 in both, "x" the same with another name and dtype, "b" on the first stage only.
inline pipeline::PlanSummary small_plan() {
  using planner::Interval;
  pipeline::PlanSummary out;
  out.header = small_header();
  out.traffic = {{0, 0, 64}, {1, 1, 96}};
  out.ranks = {{0, {{"pp", 0}, {"tp", 0}}, "rank-00000.safetensors", 3, 128},
               {1, {{"pp", 0}, {"tp", 1}}, "rank-00001.safetensors", 2, 64}};
  out.layouts.resize(2);
  out.layouts[0] = {std::nullopt, {4}, {4}, {4}, {Shape{4}, std::nullopt}, {{std::nullopt, {}, {{"pp", 2}}}}, {}};
  out.layouts[1] = {1, {8, 4}, {4, 4}, {2, 4}, {}, {{0, {{"tp", 2}}, {{"tp", 4}}}}, {{1, {0, 8, 12}}}};
  out.tensors = {{"b", "b", Dtype::kF32, Dtype::kF32, 0, 0},
                 {"layers.0.w", "layers.0.w", Dtype::kBf16, Dtype::kBf16, 1, 1},
                 {"layers.1.w", "old.1.w", Dtype::kF32, Dtype::kBf16, 1, 1}};
  out.transfers = {{0, {{0, 0, {{0, 4}}, {{0, 4}}}}},
                   {1, {{0, 1, {{2, 4}, {0, 4}}, {{0, 2}, {0, 4}}}, {1, 2, {{0, 2}, {0, 4}}, {{0, 2}, {0, 4}}}}}};
  return out;
}

}  // namespace reshard::test
