#include "command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>
#include <thread>

#include "report_file.hpp"
#include "reshard/base/error.hpp"
#include "reshard/format/hdf5/hdf5.hpp"
#include "reshard/format/safetensors/safetensors.hpp"
#include "reshard/plan/size.hpp"
#include "reshard/report/colour.hpp"
#include "reshard/report/text.hpp"

namespace reshard::app {
namespace {

[[noreturn]] void usage_error(std::string message) {
  throw Error(Issue{ErrorCode::kUsage, "", kNoTensor, std::move(message)});
}

std::pair<std::string, std::int64_t> parse_set(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::int64_t value = 0;
  if (equals != std::string::npos && equals > 0) {
    const char* const end = text.data() + text.size();
    const char* const number = text.data() + equals + 1;
    const auto [stop, error] = std::from_chars(number, end, value);
    const char* const digits = number + (text[equals + 1] == '-' ? 1 : 0);
    const bool padded = stop - digits > 1 && *digits == '0';
    if (error == std::errc{} && stop == end && !padded) return {text.substr(0, equals), value};
  }
  usage_error(
      fmt::format("--set {}: expected name=value with a whole number without leading zeros, as in --set tp=4", text));
}

/// Whether a person reads standard output or standard error. Open MPI gives its first process a terminal even where the
/// job's output goes to a file.
bool is_read_at_terminal(int descriptor) {
  return !is_launched() && isatty(descriptor) == 1;
}

/// A terminal that shows colours, and a user who has not said no (https://no-color.org).
bool shows_colour() {
  const char* const no_colour = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return (no_colour == nullptr || *no_colour == '\0') && terminal != nullptr && std::string_view(terminal) != "dumb";
}

/// Text as a terminal shows it: whole words in a line, in colour.
std::string terminal_text(const std::string& result) {
  const std::string text = report::wrapped_lines(result);
  return shows_colour() ? report::coloured(text) : text;
}

}  // namespace

void add_common(CLI::App& command, CommonOptions& options, bool with_html) {
  static const std::map<std::string, Report> reports = {
      {"text", Report::kText}, {"json", Report::kJson}, {"html", Report::kHtml}};
  std::vector<std::string> forms = {"text", "json"};
  if (with_html) forms.push_back("html");
  command
      .add_option_function<std::string>(
          "--report", [&options](const std::string& text) { options.report = reports.at(text); },
          with_html ? "Form of the result: text, json, or html, a page for a browser (default text)"
                    : "Form of the result: text or json (default text)")
      ->check(CLI::IsMember(forms));
  command.add_option("--output", options.output, "Write the result to this file instead of standard output");
  command.add_flag("--quiet", options.quiet, "No progress, warnings and notices on standard error");
  command.add_flag("--verbose", options.verbose, "Say on standard error what is being done");
  command.add_flag("--allow-external", options.allow_external,
                   "Follow HDF5 external links, external storage and virtual datasets inside the source directory");
}

void add_planning(CLI::App& command, PlanningOptions& options) {
  command.add_option("PLAN", options.plan_file, "The plan: YAML, or JSON where its name ends in .json")->required();
  command.add_option("--source", options.source, "Checkpoint to read; wins over the plan's path");
  command.add_option("--target", options.target, "Directory to write; wins over the plan's path");
  command
      .add_option(
          "--transport", options.transport,
          "How bytes get from reader to writer: auto, direct (every process reads what it writes), mpi (each byte is "
          "read once and sent on), or nccl (the same between GPUs, one for each process)")
      ->check(CLI::IsMember({"auto", "direct", "mpi", "nccl"}))
      ->capture_default_str();
  command
      .add_option("--memory", options.memory,
                  "Bound per process on all buffers that hold tensor bytes, as 512MiB or 2GB")
      ->capture_default_str();
  command
      .add_option("--device-memory", options.device_memory,
                  "Bound per process on GPU memory that holds tensor bytes, with --transport nccl")
      ->capture_default_str();
  command.add_flag("--allow-extra", options.allow_extra, "Leave out tensors that no rule matches (unmatched: drop)");
  command.add_flag("--allow-missing", options.allow_missing,
                   "Rules that match nothing are no error (every rule optional)");
  command.add_option("--set", options.sets, "Set a variable of the plan: name=value; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--target-format", options.target_format, "Format to write; wins over the plan: hdf5 or safetensors")
      ->check(CLI::IsMember({"hdf5", "safetensors"}));
}

namespace {

std::int64_t size_of(std::string_view option, const std::string& text) {
  const std::optional<std::int64_t> bytes = plan::parse_size(text);
  if (!bytes || *bytes <= 0) usage_error(fmt::format("{} {}: expected a size: {}", option, text, plan::kSizeForms));
  return *bytes;
}

}  // namespace

pipeline::PrepareOptions prepare_options(const PlanningOptions& planning, const CommonOptions& common) {
  static const std::map<std::string, pipeline::Transport> transports = {{"auto", pipeline::Transport::kAuto},
                                                                        {"direct", pipeline::Transport::kDirect},
                                                                        {"mpi", pipeline::Transport::kMpi},
                                                                        {"nccl", pipeline::Transport::kNccl}};
  pipeline::PrepareOptions out;
  out.plan_file = planning.plan_file;
  for (const std::string& text : planning.sets) out.plan.variables.push_back(parse_set(text));
  out.plan.allow_extra = planning.allow_extra;
  out.plan.allow_missing = planning.allow_missing;
  if (!planning.target_format.empty()) out.plan.target_format = planning.target_format;
  if (!planning.source.empty()) out.source = planning.source;
  if (!planning.target.empty()) out.target = planning.target;
  if (!common.output.empty()) out.output = common.output;
  out.transport = transports.at(planning.transport);
  out.memory_bytes = size_of("--memory", planning.memory);
  out.device_memory_bytes = size_of("--device-memory", planning.device_memory);
  out.allow_external = common.allow_external;
  return out;
}

pipeline::Log log_of(const CommonOptions& common, bool first) {
  if (!common.verbose || !first) return [](std::string_view) {};
  return [](std::string_view line) { std::fputs(fmt::format("reshard: {}\n", escaped(line)).c_str(), stderr); };
}

int default_threads(int local_processes) {
  constexpr int kMostByDefault = 8;
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::clamp(cores / local_processes, 1, kMostByDefault);
}

void say(std::string_view line) {
  const std::string text = fmt::format("reshard: {}\n", line);
  std::fputs((is_read_at_terminal(STDERR_FILENO) ? report::wrapped_lines(text) : text).c_str(), stderr);
}

void print_warnings(const std::vector<Warning>& warnings) {
  if (is_read_at_terminal(STDERR_FILENO)) {
    std::fputs(report::warnings_text(warnings).c_str(), stderr);
  } else {
    for (const std::string& line : report::warning_lines(warnings)) std::fputs((line + '\n').c_str(), stderr);
  }
}

void add_footer(CLI::App& command, const std::string& example) {
  command.footer(fmt::format("Example:\n  {}\n\n{}", example, kExitCodes));
}

void print_result(const CommonOptions& options, const std::string& result) {
  if (options.output.empty()) {
    const std::string text =
        options.report == Report::kText && is_read_at_terminal(STDOUT_FILENO) ? terminal_text(result) : result;
    const bool is_taken = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (std::fflush(stdout) != 0 || !is_taken)
      throw Error(Issue{ErrorCode::kIo, "standard output", kNoTensor, "cannot be written"});
  } else {
    write_report(options.output, result);
  }
}

pipeline::Formats known_formats() {
  std::vector<std::unique_ptr<format::FileFormat>> formats;
  formats.push_back(format::make_hdf5("/proc/self/exe"));
  formats.push_back(format::make_safetensors());
  return pipeline::Formats(std::move(formats));
}

}  // namespace reshard::app
