#include "reshard/pipeline/estimate.hpp"

#include <doctest/doctest.h>

using reshard::pipeline::Estimate;
using reshard::pipeline::estimate;
using reshard::pipeline::Workload;

TEST_CASE("an estimate is bytes over rates, the floor what overlaps wholly") {
  CHECK(estimate(Workload{}) == Estimate{0, 0});
  Workload workload;
  workload.needed_bytes = 2'000'000'000;
  workload.read_bytes = 4'000'000'000;
  workload.exchanged_bytes = 1'000'000'000;
  workload.written_bytes = 3'000'000'000;
  workload.files = 4;
  workload.processes = 2;
  CHECK(estimate(workload) == Estimate{2 + 1.5 + 0.25 + 0.004, 1.5});
}
