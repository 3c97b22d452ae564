#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "reshard/report/fold_names.hpp"
#include "reshard/report/inspect_report.hpp"
#include "reshard/report/text.hpp"

namespace reshard::report {
namespace {

using pipeline::InspectedTensor;
using pipeline::ShapeRun;

constexpr std::size_t kNames = 8;
constexpr std::size_t kRuns = 4;

/// "[4, 4]" on every rank, "[4, 4] on 0 to 3, [2, 4] on 4".
std::string stored_text(const std::vector<ShapeRun>& runs, planner::Index ranks) {
  if (runs.size() == 1 && runs[0].first_rank == 0 && runs[0].last_rank == ranks - 1) return shape_text(runs[0].shape);
  std::string out;
  for (std::size_t i = 0; i < std::min(runs.size(), kRuns); ++i) {
    const ShapeRun& run = runs[i];
    out += fmt::format("{}{} on {}", i == 0 ? "" : ", ", shape_text(run.shape), run.first_rank);
    if (run.last_rank != run.first_rank) out += fmt::format(" to {}", run.last_rank);
  }
  if (runs.size() > kRuns) out += fmt::format(" and {} more", runs.size() - kRuns);
  return out;
}

}  // namespace

std::string inspect_text(const pipeline::Inspection& inspection) {
  std::string out = fmt::format("{}, {}, {}, {} in {}\n", inspection.format, count_text(inspection.ranks, "rank"),
                                inspection.files ? escaped(*inspection.files) : "an indexed set of files",
                                bytes_text(inspection.bytes),
                                count_text(static_cast<std::int64_t>(inspection.tensors.size()), "tensor"));
  if (inspection.axes && !inspection.axes->empty())
    out += labelled("mesh", fmt::format("{}", fmt::join(*inspection.axes, " ")));

  std::vector<std::string> names;
  std::vector<std::pair<std::string, std::string>> cells;
  for (const InspectedTensor& tensor : inspection.tensors) {
    names.push_back(tensor.name);
    cells.emplace_back(fmt::format("{} {}", name(tensor.dtype), stored_text(tensor.stored, inspection.ranks)),
                       tensor.global_shape ? "of " + shape_text(*tensor.global_shape) : "");
  }
  Table table({Table::Align::kLeft, Table::Align::kLeft, Table::Align::kLeft, Table::Align::kRight});
  for (const FoldedNames& folded : fold_names(names, group_numbers(cells))) {
    const auto& [stored, whole] = cells[folded.members.front()];
    table.row({name_text(folded.pattern), stored, whole,
               count_text(static_cast<std::int64_t>(folded.members.size()), "tensor")});
  }
  out += "\n" + table.text();
  if (!inspection.ignored_files.empty())
    out += "\nother files\n" + paragraph(names_text(inspection.ignored_files, kNames));
  if (!inspection.warnings.empty()) out += "\n" + warnings_text(inspection.warnings);
  return out;
}

}  // namespace reshard::report
