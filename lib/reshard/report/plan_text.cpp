#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "reshard/report/fold_names.hpp"
#include "reshard/report/header_text.hpp"
#include "reshard/report/plan_report.hpp"
#include "reshard/report/text.hpp"

namespace reshard::report {
namespace {

using pipeline::PlanSummary;
using planner::Index;

/// Beyond so many ranks on a side the traffic matrix, and a line for each rank, are no longer read by people.
constexpr Index kRanksInTables = 16;
constexpr std::size_t kNames = 8;
constexpr std::size_t kOffsets = 16;

std::string header_text(const pipeline::PlanHeader& plan) {
  const pipeline::PlanTotals& totals = plan.totals;
  std::string out = fmt::format("plan {}\n", plan.plan_digest);
  out += sides_text(plan);
  out += labelled("moves", count_text(totals.tensors, "tensor") + " in " + count_text(totals.transfers, "transfer"));
  std::string bytes = fmt::format("{} read, {} between processes, {} written", bytes_text(totals.bytes_read),
                                  bytes_text(totals.bytes_exchanged), bytes_text(totals.bytes_written));
  if (totals.padding_bytes != 0) bytes += fmt::format(" ({} padding)", bytes_text(totals.padding_bytes));
  out += labelled("bytes", bytes);
  out += labelled("processes", fmt::format("{}, {}", plan.processes, count_text(totals.rounds, "round")));
  out += transport_text(plan);
  std::int64_t peak = 0;
  for (const std::int64_t bytes_held : plan.peak_staging_bytes) peak = std::max(peak, bytes_held);
  out += labelled("memory", fmt::format("{} of tensor bytes in a process at most, {} allowed", bytes_text(peak),
                                        bytes_text(plan.memory_bound_bytes)));
  out += labelled("estimate", fmt::format("{} where storage does {:g} GB/s each way, {} if all of it overlaps",
                                          seconds_text(plan.estimate.seconds), pipeline::kStorageBytesPerSecond / 1e9,
                                          seconds_text(plan.estimate.floor_seconds)));
  return out + left_out_text(plan);
}

/// "tp 2 x gtp 3"
std::string axes_text(const std::vector<layout::Axis>& axes) {
  std::string out;
  for (const layout::Axis& axis : axes) out += fmt::format("{}{} {}", out.empty() ? "" : " x ", axis.name, axis.size);
  return out;
}

/// "tp 2 -> 4", "whole -> tp 4", "tp 2 x gtp 3 -> tp 4", "tp 4".
std::string change_text(const pipeline::CutSummary& cut) {
  const std::string uncut = cut.dim ? "whole" : "all";
  if (cut.source == cut.target) return axes_text(cut.source);
  if (cut.source.size() == 1 && cut.target.size() == 1 && cut.source[0].name == cut.target[0].name)
    return fmt::format("{} {} -> {}", cut.source[0].name, cut.source[0].size, cut.target[0].size);
  return fmt::format("{} -> {}", cut.source.empty() ? uncut : axes_text(cut.source),
                     cut.target.empty() ? uncut : axes_text(cut.target));
}

std::string cuts_text(const std::vector<pipeline::CutSummary>& cuts) {
  std::string out;
  for (const pipeline::CutSummary& cut : cuts) {
    if (!out.empty()) out += ", ";
    out += cut.dim ? fmt::format("dim {} {}", *cut.dim, change_text(cut)) : "on " + change_text(cut);
  }
  return out.empty() ? "whole" : out;
}

std::string dtype_text(const pipeline::TensorSummary& tensor) {
  if (tensor.source_dtype == tensor.dtype) return std::string(name(tensor.dtype));
  return fmt::format("{} -> {}", name(tensor.source_dtype), name(tensor.dtype));
}

/// The first offsets of packed sequences, and how many there are.
std::string offsets_text(const std::vector<Index>& offsets) {
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kOffsets, offsets.size()));
  std::string out = fmt::format("{}", fmt::join(offsets.begin(), offsets.begin() + shown, ", "));
  if (offsets.size() > kOffsets) out += fmt::format(", ... ({} in all)", offsets.size());
  return out;
}

/// One line per pattern of names that have layout, rule and dtypes in common.
std::string tensors_text(const PlanSummary& summary) {
  std::vector<std::string> names;
  std::vector<std::tuple<std::size_t, Dtype, Dtype>> keys;
  for (const pipeline::TensorSummary& tensor : summary.tensors) {
    names.push_back(tensor.name);
    keys.emplace_back(tensor.layout, tensor.source_dtype, tensor.dtype);
  }
  Table table({Table::Align::kLeft, Table::Align::kLeft, Table::Align::kLeft, Table::Align::kRight});
  std::string renamed;
  std::string padded;
  for (const FoldedNames& folded : fold_names(names, group_numbers(keys))) {
    const pipeline::TensorSummary& first = summary.tensors[folded.members.front()];
    const pipeline::LayoutSummary& layout = summary.layouts[first.layout];
    const std::string pattern = escaped(folded.pattern);
    table.row({pattern, fmt::format("{} {}", dtype_text(first), shape_text(layout.shape)), cuts_text(layout.cuts),
               count_text(static_cast<std::int64_t>(folded.members.size()), "tensor")});
    std::vector<std::string> sources;
    for (const std::size_t t : folded.members) sources.push_back(summary.tensors[t].source_name);
    for (const FoldedNames& source : fold_names(sources, std::vector<std::size_t>(sources.size(), 0)))
      if (source.pattern != folded.pattern) renamed += paragraph(escaped(source.pattern) + " -> " + pattern);
    for (const pipeline::PaddedOffsets& offsets : layout.padded_offsets)
      padded += paragraph(fmt::format("{} dim {}: {}", pattern, offsets.dim, offsets_text(offsets.offsets)));
  }
  std::string out = "\ntensors\n" + (summary.tensors.empty() ? "  none\n" : table.text());
  if (!renamed.empty()) out += "\nrenamed\n" + renamed;
  if (!padded.empty()) out += "\noffsets of the target's padded sequences\n" + padded;
  return out;
}

struct Unit {
  std::string name;
  std::int64_t bytes = 1;
};

/// The unit in which the largest number has at most four digits.
Unit unit_for(std::int64_t most) {
  Unit unit{"B", 1};
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (most / unit.bytes < 10000) break;
    unit = {larger, unit.bytes * 1024};
  }
  return unit;
}

std::string cell_text(std::int64_t bytes, const Unit& unit) {
  if (bytes == 0) return ".";
  const std::int64_t rounded = (bytes + unit.bytes / 2) / unit.bytes;
  return rounded == 0 ? "<1" : fmt::format("{}", rounded);
}

std::string traffic_text(const PlanSummary& summary) {
  const Index sources = summary.header.source.ranks;
  const Index targets = summary.header.target.ranks;
  if (sources > kRanksInTables || targets > kRanksInTables)
    return fmt::format("\ntraffic\n{}",
                       paragraph(fmt::format("between {} pairs of ranks (of {} x {}); --report json lists them",
                                             summary.traffic.size(), sources, targets)));
  std::map<std::pair<Index, Index>, std::int64_t> bytes;
  std::int64_t most = 0;
  for (const pipeline::TrafficEntry& entry : summary.traffic) {
    bytes[{entry.source_rank, entry.target_rank}] = entry.bytes;
    most = std::max(most, entry.bytes);
  }
  const Unit unit = unit_for(most);
  Table table(std::vector<Table::Align>(static_cast<std::size_t>(targets) + 1, Table::Align::kRight));
  std::vector<std::string> head = {""};
  for (Index target = 0; target < targets; ++target) head.push_back(fmt::format("{}", target));
  table.row(std::move(head));
  for (Index source = 0; source < sources; ++source) {
    std::vector<std::string> row = {fmt::format("{}", source)};
    for (Index target = 0; target < targets; ++target) row.push_back(cell_text(bytes[{source, target}], unit));
    table.row(std::move(row));
  }
  return fmt::format("\ntraffic in {}: source ranks down, target ranks across\n{}", unit.name, table.text());
}

std::string coordinates_text(const pipeline::RankSummary& rank) {
  std::string out;
  for (const auto& [axis, coordinate] : rank.coordinates)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", axis, coordinate);
  return out;
}

/// Every rank; where there are many, runs of ranks that store as much.
std::string ranks_text(const PlanSummary& summary) {
  const std::vector<pipeline::RankSummary>& ranks = summary.ranks;
  const bool each = static_cast<Index>(ranks.size()) <= kRanksInTables;
  Table table(
      {Table::Align::kLeft, Table::Align::kLeft, Table::Align::kLeft, Table::Align::kRight, Table::Align::kRight});
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (!each && last + 1 < ranks.size() && ranks[last + 1].tensors == ranks[i].tensors &&
           ranks[last + 1].bytes == ranks[i].bytes)
      ++last;
    const bool one = last == i;
    table.row({one ? fmt::format("{}", ranks[i].rank) : fmt::format("{} to {}", ranks[i].rank, ranks[last].rank),
               coordinates_text(ranks[i]) + (one ? "" : " ..."), escaped(ranks[i].file) + (one ? "" : " ..."),
               count_text(ranks[i].tensors, "tensor"), bytes_text(ranks[i].bytes) + (one ? "" : " each")});
    i = last + 1;
  }
  return "\ntarget ranks\n" + table.text();
}

/// What one rank stores: its local model layout.
std::string local_text(const PlanSummary& summary) {
  std::vector<std::string> names;
  std::vector<std::tuple<std::string, Shape, Dtype>> keys;
  std::int64_t bytes = 0;
  for (const pipeline::LocalTensor& tensor : summary.local) {
    names.push_back(tensor.name);
    keys.emplace_back(tensor.file, tensor.shape, tensor.dtype);
    bytes += tensor.bytes;
  }
  Table table({Table::Align::kLeft, Table::Align::kLeft, Table::Align::kRight, Table::Align::kLeft});
  for (const FoldedNames& folded : fold_names(names, group_numbers(keys))) {
    const pipeline::LocalTensor& tensor = summary.local[folded.members.front()];
    table.row({escaped(folded.pattern), fmt::format("{} {}", name(tensor.dtype), shape_text(tensor.shape)),
               bytes_text(tensor.bytes) + (folded.members.size() == 1 ? "" : " each"), escaped(tensor.file)});
  }
  return fmt::format("\nrank {} stores {}, {}\n{}", *summary.local_rank,
                     count_text(static_cast<std::int64_t>(summary.local.size()), "tensor"), bytes_text(bytes),
                     table.text());
}

std::string copies_text(const std::vector<pipeline::CopyAxis>& axes) {
  std::vector<std::string> texts;
  for (const pipeline::CopyAxis& copy : axes)
    texts.push_back(
        fmt::format("{} {}{}={}", copy.side, copy.view.empty() ? "" : copy.view + " ", copy.axis.name, copy.axis.size));
  return fmt::format("\naxes that only make copies\n{}", paragraph(fmt::format("{}", fmt::join(texts, ", "))));
}

}  // namespace

std::string plan_text(const PlanSummary& summary) {
  std::string out = header_text(summary.header);
  if (summary.local_rank) {
    out += local_text(summary);
  } else {
    out += tensors_text(summary);
    out += traffic_text(summary);
    out += ranks_text(summary);
  }
  if (!summary.copy_axes.empty()) out += copies_text(summary.copy_axes);
  if (!summary.header.ignored_files.empty())
    out += "\nignored in the source\n" + paragraph(names_text(summary.header.ignored_files, kNames));
  if (!summary.header.warnings.empty()) out += "\n" + warnings_text(summary.header.warnings);
  return out;
}

}  // namespace reshard::report
