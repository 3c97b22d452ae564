#include "reshard/report/drawing_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/report/text.hpp"

namespace reshard::report {
namespace {

using pipeline::ShardSummary;
using planner::Index;
using planner::Interval;

constexpr std::size_t kDrawings = 6;
constexpr std::size_t kTransfers = 16;
constexpr std::size_t kMostPieces = 8;  // of a dim
constexpr std::size_t kLabelWidth = 12;

/// The dims that are drawn, rows first. A vector is a row.
struct DrawnDims {
  std::optional<std::size_t> rows;
  std::optional<std::size_t> columns;
  std::vector<std::size_t> others_cut;  ///< cut too, but not drawn
};

DrawnDims drawn_dims(const pipeline::LayoutSummary& layout) {
  std::vector<std::size_t> cut;
  for (const pipeline::CutSummary& summary : layout.cuts)
    if (summary.dim) cut.push_back(*summary.dim);
  DrawnDims out;
  if (cut.size() > 2) out.others_cut.assign(cut.begin() + 2, cut.end());
  cut.resize(std::min<std::size_t>(cut.size(), 2));
  // Beside one cut dim, or none, the last dims that are not cut.
  for (std::size_t d = layout.shape.size(); d-- > 0 && cut.size() < 2;)
    if (std::find(cut.begin(), cut.end(), d) == cut.end()) cut.push_back(d);
  std::sort(cut.begin(), cut.end());
  if (!cut.empty()) out.columns = cut.back();
  if (cut.size() == 2) out.rows = cut.front();
  return out;
}

/// Where shards of a side begin or end on a dim: the intervals between. One without a length where the dim has none.
std::vector<Interval> pieces_of(const std::vector<ShardSummary>& shards, std::optional<std::size_t> dim,
                                const Shape& shape) {
  const Index length = dim ? shape[*dim] : 1;
  std::set<Index> ends = {0, length};
  if (dim)
    for (const ShardSummary& shard : shards)
      for (const layout::Run& run : shard.dims[*dim]) ends.insert({run.global, run.global + run.length});
  std::vector<Interval> out;
  for (auto end = std::next(ends.begin()); end != ends.end(); ++end) out.push_back({*std::prev(end), *end});
  if (out.empty()) out.push_back({0, 0});
  return out;
}

/// The pieces that are drawn; nothing stands for those left out.
std::vector<std::optional<Interval>> shortened(const std::vector<Interval>& pieces, std::size_t most) {
  std::vector<std::optional<Interval>> out(pieces.begin(), pieces.end());
  if (out.size() <= most) return out;
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(most - 1), out.end() - 1);
  out.insert(out.end() - 1, std::nullopt);
  return out;
}

bool holds(const std::vector<layout::Run>& runs, Index index) {
  return std::any_of(runs.begin(), runs.end(),
                     [&](const layout::Run& run) { return run.global <= index && index < run.global + run.length; });
}

/// "0", "0..3", "0..62..2", "64 ranks".
std::string holders_text(const std::vector<ShardSummary>& shards, const DrawnDims& dims, const Shape& shape, Index row,
                         Index column) {
  std::vector<std::int64_t> ranks;
  for (const ShardSummary& shard : shards) {
    bool here = true;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Index index = d == dims.rows ? row : d == dims.columns ? column : 0;
      here = here && (shape[d] == 0 || holds(shard.dims[d], index));
    }
    if (here) ranks.insert(ranks.end(), shard.ranks.begin(), shard.ranks.end());
  }
  std::sort(ranks.begin(), ranks.end());
  if (ranks.empty()) return "-";
  const std::string text = range_text(ranks);
  return text.size() <= kLabelWidth ? text : fmt::format("{} ranks", ranks.size());
}

std::string interval_text(const Interval& interval) {
  return fmt::format("{}:{}", interval.begin, interval.end);
}

std::string centred(const std::string& text, std::size_t width) {
  const std::size_t left = (width - text.size()) / 2;
  return std::string(left, ' ') + text + std::string(width - text.size() - left, ' ');
}

/// A grid of cells under a line of column names, with row names before it.
std::string grid_text(const std::vector<std::string>& columns, const std::vector<std::string>& rows,
                      const std::vector<std::vector<std::string>>& cells) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    widths.push_back(columns[c].size() + 2);
    for (const std::vector<std::string>& row : cells) widths[c] = std::max(widths[c], row[c].size() + 2);
  }
  std::size_t margin = 0;
  for (const std::string& row : rows) margin = std::max(margin, row.size());
  const std::string indent(margin + 5, ' ');
  std::string rule = indent + "+";
  std::string head = indent + " ";
  for (std::size_t c = 0; c < columns.size(); ++c) {
    rule += std::string(widths[c], '-') + "+";
    head += centred(columns[c], widths[c]) + " ";
  }
  head.erase(head.find_last_not_of(' ') + 1);
  std::string out = (head.empty() ? "" : head + "\n") + rule + "\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    out += fmt::format("    {:>{}} |", rows[r], margin);
    for (std::size_t c = 0; c < columns.size(); ++c) out += centred(cells[r][c], widths[c]) + "|";
    out += "\n" + rule + "\n";
  }
  return out;
}

std::string side_text(const std::string& side, const std::vector<ShardSummary>& shards, const DrawnDims& dims,
                      const Shape& shape) {
  const std::vector<std::optional<Interval>> rows = shortened(pieces_of(shards, dims.rows, shape), kMostPieces);
  const std::vector<Interval> all_columns = pieces_of(shards, dims.columns, shape);
  std::string out;
  // As many columns as a line holds.
  for (std::size_t most = kMostPieces; most >= 3; --most) {
    const std::vector<std::optional<Interval>> columns = shortened(all_columns, most);
    std::vector<std::string> heads;
    std::vector<std::string> names;
    std::vector<std::vector<std::string>> cells;
    for (const auto& column : columns) heads.push_back(!column || !dims.columns ? "" : interval_text(*column));
    for (const auto& row : rows) {
      names.push_back(!row || !dims.rows ? "" : interval_text(*row));
      std::vector<std::string>& line = cells.emplace_back();
      for (const auto& column : columns)
        line.push_back(row && column ? holders_text(shards, dims, shape, row->begin, column->begin) : "...");
    }
    out = grid_text(heads, names, cells);
    const std::size_t last_line = out.rfind('\n', out.size() - 2) + 1;
    if (out.size() - 1 - last_line <= kColumns) break;
  }
  return "  " + side + "\n" + out;
}

std::string box_text(const planner::Box& box) {
  std::string out;
  for (const Interval& interval : box) out += (out.empty() ? "" : ", ") + interval_text(interval);
  return "[" + out + "]";
}

std::string transfers_text(const std::vector<planner::Transfer>& transfers, std::int64_t element_bytes) {
  Table table({Table::Align::kLeft, Table::Align::kLeft, Table::Align::kLeft, Table::Align::kRight});
  table.row({"ranks", "from the source's shard", "to the target's shard", ""});
  for (std::size_t i = 0; i < std::min(transfers.size(), kTransfers); ++i) {
    const planner::Transfer& transfer = transfers[i];
    std::int64_t bytes = element_bytes;
    for (const Interval& interval : transfer.source_box) bytes = checked_mul(bytes, interval.end - interval.begin);
    table.row({fmt::format("{} -> {}", transfer.source_rank, transfer.target_rank), box_text(transfer.source_box),
               box_text(transfer.target_box), bytes_text(bytes)});
  }
  std::string out = table.text();
  if (transfers.size() > kTransfers)
    out += paragraph(fmt::format("... {} transfers in all; --report json lists them", transfers.size()));
  return out;
}

std::string drawing_text(const pipeline::PlanSummary& summary, const TensorGroup& group) {
  const pipeline::TensorSummary& tensor = summary.tensors[group.names.members.front()];
  const pipeline::LayoutSummary& layout = summary.layouts[tensor.layout];
  std::string out = "\n" + name_text(tensor.name) + "\n";
  out += paragraph(fmt::format("{} {}, {}", dtypes_text(tensor), shape_text(layout.shape), cuts_text(layout.cuts)));
  if (group.names.members.size() > 1)
    out += paragraph(fmt::format("the first of {}: {}",
                                 count_text(static_cast<std::int64_t>(group.names.members.size()), "tensor"),
                                 name_text(group.names.pattern)));
  const DrawnDims dims = drawn_dims(layout);
  if (dims.rows)
    out += paragraph(fmt::format("dim {} down, dim {} across; in the boxes, ranks", *dims.rows, *dims.columns));
  for (const std::size_t dim : dims.others_cut)
    out += paragraph(fmt::format("dim {} is cut too; the ranks are those that hold its beginning", dim));
  out += side_text("source", layout.source_shards, dims, layout.shape);
  out += side_text("target", layout.target_shards, dims, layout.shape);
  return out + transfers_text(summary.transfers[tensor.transfers].transfers, size_bytes(tensor.source_dtype));
}

}  // namespace

std::string drawings_text(const pipeline::PlanSummary& summary, const std::vector<TensorGroup>& groups) {
  std::string out;
  for (std::size_t i = 0; i < std::min(groups.size(), kDrawings); ++i) out += drawing_text(summary, groups[i]);
  if (groups.size() > kDrawings)
    out += "\n" + paragraph(fmt::format("the other {} kinds of tensors are not drawn; a narrower --tensor shows them",
                                        groups.size() - kDrawings));
  return out;
}

}  // namespace reshard::report
