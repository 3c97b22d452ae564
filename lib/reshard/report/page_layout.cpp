#include "reshard/report/page_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "reshard/base/json.hpp"
#include "reshard/report/fold_names.hpp"

namespace reshard::report {
namespace {

using pipeline::ShardSummary;
using planner::Index;

constexpr std::size_t kMostShards = 2048;
constexpr std::size_t kMostRuns = 256;  // of a dim
constexpr std::size_t kMostTransfers = 4096;

/// Integers only: written without a tree.
class Text {
 public:
  void open(std::string_view key = "") {
    comma();
    if (!key.empty()) fmt::format_to(std::back_inserter(out), R"("{}":)", key);
    out += '[';
    first_ = true;
  }
  void close() {
    out += ']';
    first_ = false;
  }
  void number(Index value) {
    comma();
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
  std::string out;

 private:
  void comma() {
    if (!first_) out += ',';
    first_ = false;
  }
  bool first_ = true;
};

std::string shard_json(const ShardSummary& shard) {
  Text text;
  text.out = "{";
  text.open("ranks");
  for (const NumberRun& run : number_runs(shard.ranks)) {
    text.open();
    for (const std::int64_t number : {run.first, run.last, run.step}) text.number(number);
    text.close();
  }
  text.close();
  text.open("stored");
  for (const Index length : shard.stored_shape) text.number(length);
  text.close();
  text.open("dims");
  for (const std::vector<layout::Run>& runs : shard.dims) {
    text.open();
    for (std::size_t r = 0; r < std::min(runs.size(), kMostRuns); ++r) {
      text.open();
      for (const Index number : {runs[r].global, runs[r].stored, runs[r].length}) text.number(number);
      text.close();
    }
    text.close();
  }
  text.close();
  return text.out + "}";
}

/// "source":[...],"source_left":{...}
std::string side_json(std::string_view side, const std::vector<ShardSummary>& shards) {
  std::string out = fmt::format(R"("{}":[)", side);
  std::size_t ranks = 0;
  bool cut_short = false;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    ranks += shards[s].ranks.size();
    if (s >= kMostShards) continue;
    out += (s == 0 ? "" : ",") + shard_json(shards[s]);
    for (const std::vector<layout::Run>& runs : shards[s].dims) cut_short = cut_short || runs.size() > kMostRuns;
  }
  return out + fmt::format(R"(],"{}_left":{{"shards":{},"ranks":{},"runs":{}}})", side,
                           shards.size() - std::min(shards.size(), kMostShards), ranks, cut_short);
}

std::string transfers_json(const std::vector<planner::Transfer>& transfers, const std::vector<ShardSummary>& sources) {
  std::map<Index, const ShardSummary*> shard_of;
  for (const ShardSummary& shard : sources)
    for (const Index rank : shard.ranks) shard_of[rank] = &shard;
  Text text;
  text.open("transfers");
  const std::size_t count = std::min(transfers.size(), kMostTransfers);
  for (std::size_t t = 0; t < count; ++t) {
    const planner::Transfer& transfer = transfers[t];
    text.open();
    text.number(transfer.source_rank);
    text.number(transfer.target_rank);
    for (const planner::Interval& interval :
         pipeline::global_box(*shard_of.at(transfer.source_rank), transfer.source_box)) {
      text.number(interval.begin);
      text.number(interval.end);
    }
    text.close();
  }
  text.close();
  return text.out + fmt::format(R"(,"transfers_left":{})", transfers.size() - count);
}

}  // namespace

std::string page_layout(const pipeline::PlanSummary& summary, std::size_t tensor) {
  const pipeline::TensorSummary& shown = summary.tensors[tensor];
  const pipeline::LayoutSummary& layout = summary.layouts[shown.layout];
  return fmt::format(R"({{"tensor":{},{},{},{}}})", json_string(shown.name), side_json("source", layout.source_shards),
                     side_json("target", layout.target_shards),
                     transfers_json(summary.transfers[shown.transfers].transfers, layout.source_shards));
}

}  // namespace reshard::report
