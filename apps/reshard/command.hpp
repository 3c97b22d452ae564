#pragma once
// What all commands share: the options of the command line, and where results go.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_environment.hpp"
#include "reshard/pipeline/formats.hpp"
#include "reshard/pipeline/prepare.hpp"

namespace reshard::app {

enum class Report { kText, kJson, kHtml };

/// Options of every command.
struct CommonOptions {
  Report report = Report::kText;
  std::string output;  ///< empty: standard output
  bool quiet = false;
  bool verbose = false;
  bool allow_external = false;
};

/// Options of run and plan.
struct PlanningOptions {
  std::string plan_file;
  std::string source;
  std::string target;
  std::string transport = "auto";
  std::string memory = "512MiB";
  std::string device_memory = "1GiB";
  bool allow_extra = false;
  bool allow_missing = false;
  std::vector<std::string> sets;
  std::string target_format;
};

/// `with_html`: whether the command has a page for a browser.
void add_common(CLI::App& command, CommonOptions& options, bool with_html = false);
void add_planning(CLI::App& command, PlanningOptions& options);

/// Errors: kUsage for values that are none.
pipeline::PrepareOptions prepare_options(const PlanningOptions& planning, const CommonOptions& common);

/// Where --verbose says what is being done: on the first process only.
pipeline::Log log_of(const CommonOptions& common, bool first);

/// Worker threads of each of so many processes on a node.
int default_threads(int local_processes);

inline constexpr int kMostThreads = 1024;

/// What stands below a command's --help: an example and the exit codes.
inline constexpr const char* kExitCodes = R"(Exit codes:
  0  done
  1  compared or verified, and different
  2  usage; target exists or is locked; places overlap; plan file cannot be
     opened
  3  the plan is wrong on its own
  4  the checkpoint is wrong, or plan and checkpoint disagree
  5  input/output failed; disk full
  6  transport or device failed, or is not there
  7  memory bound too small, or memory exhausted
  70 a bug of reshard
  128 + n  ended by signal n)";
void add_footer(CLI::App& command, const std::string& example);

/// To standard output, text in colour where that is a terminal; or to the file of --output.
void print_result(const CommonOptions& options, const std::string& result);

/// A line on standard error: a paragraph on a terminal. That nobody can read it is no reason to end otherwise.
void say(std::string_view line);

/// To standard error: paragraphs on a terminal, else a line each, which a search in a log finds whole.
void print_warnings(const std::vector<Warning>& warnings);

pipeline::Formats known_formats();

/// A command: its options in the parser, and what it does. Returns an exit code.
class Command {
 public:
  virtual ~Command() = default;
  virtual CLI::App* parser() = 0;
  virtual int run(MpiEnvironment& mpi) = 0;
  CommonOptions common;
};

std::unique_ptr<Command> run_command(CLI::App& app, const std::string& version);
std::unique_ptr<Command> plan_command(CLI::App& app);
std::unique_ptr<Command> inspect_command(CLI::App& app);
std::unique_ptr<Command> verify_command(CLI::App& app);
std::unique_ptr<Command> compare_command(CLI::App& app);

}  // namespace reshard::app
