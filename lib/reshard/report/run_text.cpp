#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "reshard/pipeline/estimate.hpp"
#include "reshard/report/header_text.hpp"
#include "reshard/report/run_report.hpp"
#include "reshard/report/stage_names.hpp"
#include "reshard/report/text.hpp"

namespace reshard::report {
namespace {

constexpr std::size_t kNames = 8;

std::int64_t most_of(const std::vector<std::int64_t>& values) {
  std::int64_t out = 0;
  for (const std::int64_t value : values) out = std::max(out, value);
  return out;
}

/// Files of the source that are neither tensors nor named as side files.
std::vector<std::string> other_files(const pipeline::PlanHeader& plan, const pipeline::RunResult& result) {
  std::vector<std::string> out;
  for (const std::string& file : plan.ignored_files) {
    const auto is_file = [&](const std::vector<std::string>& known) {
      return std::find(known.begin(), known.end(), file) != known.end();
    };
    if (!is_file(result.side_files) && !is_file(result.side_files_left)) out.push_back(file);
  }
  return out;
}

std::string stages_text(const pipeline::RunResult& result) {
  std::string out;
  for (std::size_t s = 0; s < result.stages.size(); ++s)
    out += fmt::format("{}{} {}", s == 0 ? "" : ", ", kStageNames[s], seconds_text(result.stages[s].seconds));
  return out + " of the slowest process, its threads summed";
}

/// Of a run that had nothing to write; empty for others.
std::string_view done_text(pipeline::Start start) {
  switch (start) {
    case pipeline::Start::kNothing:
    case pipeline::Start::kContinue:
      return "";
    case pipeline::Start::kPublish:
      return "was put in place: an earlier run had written all of it";
    case pipeline::Start::kFinished:
      return "is finished already, from an earlier run of this plan: nothing was done";
  }
  internal_error("a start without a text");
}

}  // namespace

std::string run_text(const pipeline::PlanHeader& plan, const pipeline::RunResult& result) {
  const pipeline::PlanTotals& totals = plan.totals;
  if (const std::string_view done = done_text(result.start); !done.empty()) {
    std::string out = fmt::format("{} {}\n", escaped(result.target.string()), done) + sides_text(plan);
    if (!result.side_files_left.empty())
      out += labelled("not copied", names_text(result.side_files_left, kNames) +
                                        ": a finished target stays as it is, with --copy-side-files too; loaders such "
                                        "as from_pretrained need them (--overwrite --copy-side-files writes it again)");
    return out;
  }
  std::string out =
      fmt::format("{} written to {}\n", count_text(totals.tensors, "tensor"), escaped(result.target.string()));
  out += sides_text(plan);
  std::int64_t read = 0;
  for (const std::int64_t bytes : result.bytes_read) read += bytes;
  std::string written = fmt::format("{} in {}", bytes_text(totals.bytes_written), seconds_text(result.seconds));
  if (result.seconds > 0)
    written += fmt::format(
        ", {}/s", bytes_text(static_cast<std::int64_t>(static_cast<double>(totals.bytes_written) / result.seconds)));
  written += fmt::format("; {} read", bytes_text(read));
  if (totals.bytes_exchanged != 0) written += fmt::format(", {} between processes", bytes_text(totals.bytes_exchanged));
  out += labelled("wrote", written);
  if (result.seconds > 0)
    out +=
        labelled("floor", fmt::format("{} where storage does {:g} GB/s each way, both at once: {:.0f} % of the time",
                                      seconds_text(plan.estimate.floor_seconds), pipeline::kStorageBytesPerSecond / 1e9,
                                      100 * plan.estimate.floor_seconds / result.seconds));
  if (result.bytes_resumed != 0)
    out += labelled("resumed", bytes_text(result.bytes_resumed) +
                                   " of them were there from an earlier run: read, checked and not written again");
  out += labelled("processes", fmt::format("{}", plan.processes));
  out += transport_text(plan);
  out += labelled("stages", stages_text(result));
  out += labelled("checked", fmt::format("all bytes as written against those as read, in {}",
                                         count_text(result.digests_checked, "piece")));
  out +=
      labelled("memory", fmt::format("{} of tensor bytes in a process at most, {} allowed; {} resident",
                                     bytes_text(most_of(result.peak_staging_bytes)),
                                     bytes_text(plan.memory_bound_bytes), bytes_text(most_of(result.peak_rss_bytes))));
  out += device_text(plan);
  if (!result.side_files.empty()) out += labelled("copied", names_text(result.side_files, kNames));
  if (!result.side_files_left.empty())
    out += labelled("not copied", names_text(result.side_files_left, kNames) +
                                      ": loaders such as from_pretrained need them (--copy-side-files)");
  if (const std::vector<std::string> others = other_files(plan, result); !others.empty())
    out += labelled("ignored", names_text(others, kNames) + " in the source");
  return out + left_out_text(plan);
}

}  // namespace reshard::report
