#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "reshard/report/drawing_text.hpp"
#include "reshard/report/fold_names.hpp"
#include "reshard/report/header_text.hpp"
#include "reshard/report/plan_report.hpp"
#include "reshard/report/tensor_groups.hpp"
#include "reshard/report/text.hpp"
#include "reshard/report/traffic_text.hpp"

namespace reshard::report {
namespace {

using pipeline::PlanSummary;
using planner::Index;

/// Beyond so many, a line for each rank is no longer read by people.
constexpr std::size_t kRanksListed = 16;
/// Cuts that together take more stand one below the other.
constexpr std::size_t kCutColumns = 36;
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
  out += device_text(plan);
  out += labelled("estimate", fmt::format("{} where storage does {:g} GB/s each way, {} if all of it overlaps",
                                          seconds_text(plan.estimate.seconds), pipeline::kStorageBytesPerSecond / 1e9,
                                          seconds_text(plan.estimate.floor_seconds)));
  return out + left_out_text(plan);
}

/// The first offsets of packed sequences, and how many there are.
std::string offsets_text(const std::vector<Index>& offsets) {
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kOffsets, offsets.size()));
  std::string out = fmt::format("{}", fmt::join(offsets.begin(), offsets.begin() + shown, ", "));
  if (offsets.size() > kOffsets) out += fmt::format(", ... ({} in all)", offsets.size());
  return out;
}

/// One line for each group of tensors.
std::string tensors_text(const PlanSummary& summary, const std::vector<TensorGroup>& groups) {
  Table table({Table::Align::kLeft, Table::Align::kLeft, Table::Align::kLeft, Table::Align::kRight});
  std::string renamed;
  std::string padded;
  for (const TensorGroup& group : groups) {
    const pipeline::TensorSummary& first = summary.tensors[group.names.members.front()];
    const pipeline::LayoutSummary& layout = summary.layouts[first.layout];
    const std::string pattern = name_text(group.names.pattern);
    std::vector<std::string> cuts = {cuts_text(layout.cuts)};
    if (cuts.front().size() > kCutColumns) cuts = cut_texts(layout.cuts);
    table.row({pattern, fmt::format("{} {}", dtypes_text(first), shape_text(layout.shape)), cuts.front(),
               count_text(static_cast<std::int64_t>(group.names.members.size()), "tensor")});
    for (std::size_t c = 1; c < cuts.size(); ++c) table.row({"", "", cuts[c], ""});
    for (const std::string& source : group.source_patterns) renamed += paragraph(name_text(source) + " -> " + pattern);
    for (const pipeline::PaddedOffsets& offsets : layout.padded_offsets)
      padded += paragraph(fmt::format("{} dim {}: {}", pattern, offsets.dim, offsets_text(offsets.offsets)));
  }
  std::string out = "\ntensors\n" + (summary.tensors.empty() ? "  none\n" : table.text());
  if (!renamed.empty()) out += "\nrenamed\n" + renamed;
  if (!padded.empty()) out += "\noffsets of the target's padded sequences\n" + padded;
  return out;
}

/// "pp=0 tp=3"
std::string coordinates_text(const pipeline::RankSummary& rank) {
  std::string out;
  for (const auto& [axis, coordinate] : rank.coordinates)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", axis, coordinate);
  return out;
}

/// Ranks that follow each other and store as much.
struct RankRun {
  std::size_t first = 0;
  std::size_t last = 0;
};

std::vector<RankRun> rank_runs(const std::vector<pipeline::RankSummary>& ranks) {
  const bool each = ranks.size() <= kRanksListed;
  std::vector<RankRun> out;
  for (std::size_t i = 0; i < ranks.size(); i = out.back().last + 1) {
    out.push_back({i, i});
    std::size_t& last = out.back().last;
    while (!each && last + 1 < ranks.size() && ranks[last + 1].tensors == ranks[i].tensors &&
           ranks[last + 1].bytes == ranks[i].bytes)
      ++last;
  }
  return out;
}

/// Every rank; where there are many, runs of ranks that store as much, and of those only the first.
std::string ranks_text(const PlanSummary& summary) {
  const std::vector<pipeline::RankSummary>& ranks = summary.ranks;
  const std::vector<RankRun> runs = rank_runs(ranks);
  Table table(
      {Table::Align::kLeft, Table::Align::kLeft, Table::Align::kLeft, Table::Align::kRight, Table::Align::kRight});
  for (std::size_t i = 0; i < std::min(runs.size(), kRanksListed); ++i) {
    const auto [first, last] = runs[i];
    const pipeline::RankSummary& rank = ranks[first];
    const std::string more = last == first ? "" : " ...";
    table.row({last == first ? fmt::format("{}", rank.rank) : fmt::format("{} to {}", rank.rank, ranks[last].rank),
               coordinates_text(rank) + more, escaped(rank.file) + more, count_text(rank.tensors, "tensor"),
               bytes_text(rank.bytes) + (last == first ? "" : " each")});
  }
  std::string out = "\ntarget ranks\n" + table.text();
  if (runs.size() <= kRanksListed) return out;
  const auto by_bytes = [](const auto& a, const auto& b) { return a.bytes < b.bytes; };
  const auto least = std::min_element(ranks.begin(), ranks.end(), by_bytes);
  const auto most = std::max_element(ranks.begin(), ranks.end(), by_bytes);
  return out + paragraph(fmt::format("... {} ranks in all, from {} (rank {}) to {} (rank {}); --report json lists them",
                                     ranks.size(), bytes_text(least->bytes), least->rank, bytes_text(most->bytes),
                                     most->rank));
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
    table.row({name_text(folded.pattern), fmt::format("{} {}", name(tensor.dtype), shape_text(tensor.shape)),
               bytes_text(tensor.bytes) + (folded.members.size() == 1 ? "" : " each"), escaped(tensor.file)});
  }
  return fmt::format("\nrank {} stores {}, {}\n{}", *summary.local_rank,
                     count_text(static_cast<std::int64_t>(summary.local.size()), "tensor"), bytes_text(bytes),
                     table.text());
}

std::string copies_text(const std::vector<pipeline::CopyAxis>& axes) {
  std::vector<std::string> texts;
  for (const pipeline::CopyAxis& copy : axes) texts.push_back(copy_axis_text(copy));
  return fmt::format("\naxes that only make copies\n{}", paragraph(fmt::format("{}", fmt::join(texts, ", "))));
}

}  // namespace

std::string plan_text(const PlanSummary& summary) {
  std::string out = header_text(summary.header);
  if (summary.local_rank) {
    out += local_text(summary);
  } else {
    const std::vector<TensorGroup> groups = tensor_groups(summary);
    out += tensors_text(summary, groups);
    if (!summary.layouts.empty() && !summary.layouts.front().target_shards.empty())
      out += drawings_text(summary, groups);
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
