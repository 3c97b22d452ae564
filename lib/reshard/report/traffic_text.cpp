#include "reshard/report/traffic_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reshard/report/text.hpp"
#include "reshard/report/traffic_blocks.hpp"

namespace reshard::report {
namespace {

using planner::Index;

constexpr Index kRanksInMatrix = 16;
constexpr Index kBlocksInMatrix = 8;

struct Unit {
  std::string name;
  std::int64_t bytes = 1;
};

/// The unit in which the largest number has at most three digits: 16 columns of them fit a line.
Unit unit_for(std::int64_t most) {
  Unit unit{"B", 1};
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}) {
    if ((most + unit.bytes / 2) / unit.bytes < 1000) break;
    unit = {larger, unit.bytes * 1024};
  }
  return unit;
}

std::string cell_text(std::int64_t bytes, const Unit& unit) {
  if (bytes == 0) return ".";
  const std::int64_t rounded = (bytes + unit.bytes / 2) / unit.bytes;
  return rounded == 0 ? "<1" : fmt::format("{}", rounded);
}

}  // namespace

std::string traffic_text(const pipeline::PlanSummary& summary) {
  const Index ranks = std::max(summary.header.source.ranks, summary.header.target.ranks);
  const TrafficBlocks blocks = traffic_blocks(summary, ranks > kRanksInMatrix ? kBlocksInMatrix : kRanksInMatrix);
  const Unit unit = unit_for(blocks.most());
  const std::size_t columns = blocks.bytes.front().size();
  Table table(std::vector<Table::Align>(columns + 1, Table::Align::kRight), 1);
  std::vector<std::string> head = {""};
  for (std::size_t c = 0; c < columns; ++c)
    head.push_back(fmt::format("{}", static_cast<Index>(c) * blocks.targets_per_column));
  table.row(std::move(head));
  for (std::size_t r = 0; r < blocks.bytes.size(); ++r) {
    std::vector<std::string> row = {fmt::format("{}", static_cast<Index>(r) * blocks.sources_per_row)};
    for (const std::int64_t bytes : blocks.bytes[r]) row.push_back(cell_text(bytes, unit));
    table.row(std::move(row));
  }
  std::string out = fmt::format("\ntraffic in {}: source ranks down, target ranks across\n", unit.name);
  if (blocks.sources_per_row > 1 || blocks.targets_per_column > 1)
    out += paragraph(fmt::format("a row is {}, a column {}, named by the first; --report json lists all {} pairs",
                                 count_text(blocks.sources_per_row, "rank"),
                                 count_text(blocks.targets_per_column, "rank"), summary.traffic.size()));
  return out + table.text();
}

}  // namespace reshard::report
