// The executable: parses the command line, runs one command, turns errors into messages and exit codes.

#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"
#include "gpus.hpp"
#include "mpi_environment.hpp"
#include "report_file.hpp"
#include "reshard/base/error.hpp"
#include "reshard/format/hdf5/hdf5.hpp"
#include "reshard/report/error_report.hpp"
#include "reshard/report/text.hpp"
#include "signals.hpp"

namespace reshard::app {
namespace {

std::string version_text() {
  std::string mpi = mpi_version();
  if (const std::size_t end = mpi.find_first_of(",\n"); end != std::string::npos) mpi.erase(end);
  std::replace(mpi.begin(), mpi.end(), '\t', ' ');
  const exchange::Gpus* const with = gpus();
  constexpr const char* kWithout = "not built in";
  return fmt::format("reshard {}\nHDF5 {}\nMPI: {}\nCUDA: {}\nNCCL: {}", RESHARD_VERSION, format::hdf5_version(), mpi,
                     with != nullptr ? with->cuda_version() : kWithout,
                     with != nullptr ? with->nccl_version() : kWithout);
}

/// Help within 80 columns, which the parser's own does not keep to.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override {
    return report::folded_text(app->get_description(), report::kColumns) + '\n';
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    // The parser puts what follows a newline under the first line.
    return report::folded_text(option->get_description(), report::kColumns - get_column_width());
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return report::labelled(command->get_name(), command->get_description());
  }
};

/// Text to standard error, JSON where the result would have gone.
void report_error(const CommonOptions& options, const Error& error) {
  for (const Issue& issue : error.issues()) say(to_line(issue));
  if (options.report != Report::kJson) return;
  // An error about the place of the result is not written there, nor one that may have come before the place was
  // checked: a plan that cannot be read does not tell which files are its source.
  CommonOptions place = options;
  for (const Issue& issue : error.issues())
    if (issue.code == ErrorCode::kUsage || issue.where == options.output) place.output.clear();
  if (!may_take_error(place.output)) place.output.clear();
  try {
    print_result(place, report::error_json(error));
  } catch (const Error& second) {
    if (second.issues() != error.issues()) say(second.what());
  }
}

/// Of an error that this process alone knows of: the others wait for it, and are ended with its exit code.
int end_job(const CommonOptions& options, const Error& error, exchange::Communicator& communicator) {
  report_error(options, error);
  if (communicator.size() > 1) communicator.abort(error.exit());
  return static_cast<int>(error.exit());
}

/// An empty value is most often a variable that is not set; it stands for nothing that an option could mean.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        throw CLI::ParseError(fmt::format("{}: the value is empty", option->get_name()),
                              static_cast<int>(Exit::kUsage));
}

/// Whether the words ask for JSON. Where the parser refuses them, it does not tell.
bool ask_for_json(const std::vector<std::string_view>& words) {
  for (std::size_t w = 0; w < words.size() && words[w] != "--"; ++w)
    if (words[w] == "--report=json" || (words[w] == "--report" && w + 1 < words.size() && words[w + 1] == "json"))
      return true;
  return false;
}

int run_command_line(int argc, char** argv) {
  CLI::App app("reshard rewrites a model checkpoint cut for one parallel layout as one cut for another.", "reshard");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", version_text(), "Versions of reshard and of the libraries it is built with");
  app.require_subcommand(1);
  app.footer(kExitCodes);
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(app::run_command(app, RESHARD_VERSION));
  commands.push_back(app::plan_command(app));
  commands.push_back(app::inspect_command(app));
  commands.push_back(app::verify_command(app));
  commands.push_back(app::compare_command(app));

  MpiEnvironment mpi(argc, argv);
  exchange::Communicator& communicator = mpi.communicator();
  const bool first = communicator.rank() == 0;
  try {
    const auto is_word = [&](const std::unique_ptr<Command>& command) {
      return command->parser()->get_name() == argv[1];
    };
    if (argc > 1 && argv[1][0] != '-' && std::none_of(commands.begin(), commands.end(), is_word))
      throw CLI::ParseError(fmt::format("there is no command '{}'", argv[1]), static_cast<int>(Exit::kUsage));
    app.parse(argc, argv);
    for (const CLI::App* command : app.get_subcommands()) refuse_empty_values(*command);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      if (first) app.exit(error);
      if (std::cout.flush()) return 0;
      say("standard output cannot be written to");
      return static_cast<int>(Exit::kIo);
    }
    CommonOptions options;
    if (ask_for_json({argv + 1, argv + argc})) options.report = Report::kJson;
    if (first)
      report_error(options, Error(Issue{ErrorCode::kUsage, "", kNoTensor,
                                        fmt::format("{} (see reshard --help)", error.what())}));
    return static_cast<int>(Exit::kUsage);
  }
  for (const std::unique_ptr<Command>& command : commands) {
    if (!command->parser()->parsed()) continue;
    try {
      if (const std::string& output = command->common.output; !output.empty())
        exchange::agreed(communicator, [&] { check_replaceable(output, known_formats()); });
      return command->run(mpi);
    } catch (const exchange::AgreedError& error) {
      if (first) report_error(command->common, error);
      return static_cast<int>(error.exit());
    } catch (const Error& error) {
      return end_job(command->common, error, communicator);
    } catch (const std::filesystem::filesystem_error& error) {
      const Issue issue{ErrorCode::kIo, error.path1().string(), kNoTensor, error.code().message()};
      return end_job(command->common, Error(issue), communicator);
    } catch (const std::bad_alloc&) {
      return end_job(command->common, Error(Issue{ErrorCode::kMemory, "", kNoTensor, "out of memory"}), communicator);
    } catch (const std::exception& error) {
      return end_job(command->common, Error(Issue{ErrorCode::kInternal, "", kNoTensor, error.what()}), communicator);
    }
  }
  return static_cast<int>(Exit::kUsage);
}

}  // namespace
}  // namespace reshard::app

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // Headers, plans and reports are large texts that come and go: their memory is used again, not given back and zeroed
  // anew by the system. A twentieth of the time of a run of many small tensors.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MXFAST, 0);  // free pieces are joined at once, not all of them whenever a large one is freed
#endif
  if (argc > 1 && argv[1] == reshard::format::kHdf5ChildArgument) return reshard::format::run_hdf5_child(argc, argv);
  reshard::app::ignore_file_limit();
  try {
    return reshard::app::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    reshard::app::say(error.what());
    return static_cast<int>(reshard::Exit::kTransport);
  }
}
