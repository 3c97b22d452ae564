#pragma once
// What all commands share: the options of the command line, and where results go.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "mpi_environment.hpp"
#include "reshard/pipeline/formats.hpp"
#include "reshard/pipeline/prepare.hpp"

namespace reshard::app {

enum class Report { kText, kJson };

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
  bool allow_extra = false;
  bool allow_missing = false;
  std::vector<std::string> sets;
  std::string target_format;
};

void add_common(CLI::App& command, CommonOptions& options);
void add_planning(CLI::App& command, PlanningOptions& options);

/// Errors: kUsage for values that are none.
pipeline::PrepareOptions prepare_options(const PlanningOptions& planning, const CommonOptions& common);

/// Standard output, or the file of --output.
void print_result(const CommonOptions& options, const std::string& text);

pipeline::Formats known_formats();

/// The node's cores shared among its processes, at most 8.
int default_threads(const MpiEnvironment& mpi);

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

}  // namespace reshard::app
