#include "reshard/pipeline/traffic.hpp"

#include <doctest/doctest.h>

#include "reshard/planner/readers.hpp"
#include "reshard/planner/transfers.hpp"

using namespace reshard;
using layout::DimCut;
using layout::Level;
using planner::Index;

namespace {

DimCut cut(std::string axis, Index size, Index stride = 1) {
  Level level;
  level.axis = std::move(axis);
  level.axis_size = size;
  level.stride = stride;
  DimCut out;
  out.levels = {level};
  return out;
}

/// [24, 12]: rows striped over tp 3, copied over dp 2, to columns over tp 4 on two stages, of which the first has it.
planner::LayoutPair mixed_pair() {
  const layout::Mesh source({{"dp", 2}, {"tp", 3}});
  const layout::Mesh target({{"pp", 2}, {"tp", 4}});
  layout::TensorCut target_cut{{cut("tp", 4), DimCut{}}, {true, true, true, true, false, false, false, false}};
  return {layout::lay_out({24, 12}, {{cut("tp", 3, 2), DimCut{}}, {}}, source),
          layout::lay_out({24, 12}, target_cut, target),
          {}};
}

}  // namespace

TEST_CASE("traffic is that of the transfers, without listing them") {
  planner::BoundPlan bound;
  bound.layouts = {mixed_pair()};
  std::vector<planner::TensorToRead> to_read;
  for (int t = 0; t < 5; ++t) {
    planner::BoundTensor tensor;
    bound.tensors.push_back(tensor);
    to_read.push_back({&bound.layouts[0].source, t < 2 ? 2 : 4});
  }
  std::vector<planner::WorkTensor> work;
  for (std::vector<Index>& sources : planner::choose_sources(to_read)) {
    planner::WorkTensor tensor;
    tensor.sources = std::move(sources);
    tensor.source_element_bytes = to_read[work.size()].element_bytes;
    work.push_back(std::move(tensor));
  }

  std::map<std::pair<Index, Index>, std::int64_t> expected;
  std::int64_t transfers = 0;
  for (const planner::WorkTensor& tensor : work)
    for (const planner::Transfer& transfer :
         planner::list_transfers(bound.layouts[0].source, bound.layouts[0].target, tensor.sources)) {
      ++transfers;
      std::int64_t bytes = tensor.source_element_bytes;
      for (const planner::Interval& interval : transfer.target_box) bytes *= interval.end - interval.begin;
      expected[{transfer.source_rank, transfer.target_rank}] += bytes;
    }
  const pipeline::Traffic traffic = pipeline::traffic_of(bound, work);
  CHECK(traffic.transfers == transfers);
  CHECK(traffic.bytes == expected);
  CHECK(transfers > 0);
}

TEST_CASE("a scalar is one piece, a tensor without elements none") {
  const layout::Mesh two({{"tp", 2}});
  const planner::LayoutPair scalar{layout::lay_out({}, {}, layout::Mesh()), layout::lay_out({}, {}, two), {}};
  CHECK(pipeline::shard_needs(scalar) == std::vector<pipeline::ShardNeeds>{{{0, 1}, {{0, 1}}, 1}});
  const layout::TensorCut whole{{DimCut{}, DimCut{}}, {}};
  const planner::LayoutPair empty{
      layout::lay_out({0, 4}, whole, layout::Mesh()), layout::lay_out({0, 4}, whole, two), {}};
  CHECK(pipeline::shard_needs(empty) == std::vector<pipeline::ShardNeeds>{{{0, 1}, {}, 0}});
}
