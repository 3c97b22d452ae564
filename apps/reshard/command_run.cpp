#include <fmt/format.h>

#include "command.hpp"
#include "gpus.hpp"
#include "progress.hpp"
#include "reshard/pipeline/plan_summary.hpp"
#include "reshard/pipeline/run.hpp"
#include "reshard/report/run_report.hpp"
#include "signals.hpp"
#include "test_hooks.hpp"

namespace reshard::app {
namespace {

class RunCommand : public Command {
 public:
  RunCommand(CLI::App& app, std::string version) : version_(std::move(version)) {
    parser_ = app.add_subcommand("run", "Reshard a checkpoint; under mpirun or alone");
    add_planning(*parser_, planning_);
    add_common(*parser_, common);
    parser_
        ->add_option("--threads", threads_,
                     "Worker threads per process (default: the node's cores shared among its processes, at most 8)")
        ->check(CLI::Range(1, kMostThreads));
    parser_->add_flag(
        "--overwrite", staging_.overwrite,
        "Replace an existing target once the new one is complete; discard what an unfinished run has left");
    parser_->add_flag("--resume", staging_.resume,
                      "Continue what an unfinished run has left in TARGET.partial, from nothing where there is none; a "
                      "target of the same plan that is finished stays as it is");
    parser_->add_flag(
        "--copy-side-files", copy_side_files_,
        "Copy config.json, tokenizer and other small files beside the tensors (up to 64 MiB each); a target "
        "that --resume finds finished gets none");
    parser_->add_flag("--check-replicas", check_replicas_, "Read all copies in the source and require equal bytes");
    parser_->add_flag("--verify", verify_, "After writing, read the target's files again and compare digests");
    add_footer(*parser_, "mpirun -n 2 reshard run plan.yaml --source llama-tp2 --target llama-tp4");
  }

  CLI::App* parser() override { return parser_; }

  int run(MpiEnvironment& mpi) override {
    exchange::Communicator& communicator = mpi.communicator();
    const bool first = communicator.rank() == 0;
    pipeline::RunOptions options;
    std::unique_ptr<pipeline::Hooks> hooks;
    exchange::agreed(communicator, [&] {
      options.prepare = prepare_options(planning_, common);
      hooks = test_hooks(communicator.rank());
    });
    options.prepare.processes = communicator.size();
    options.prepare.log = log_of(common, first);
    options.prepare.threads = threads_ > 0 ? threads_ : default_threads(mpi.local_processes());
    options.staging = staging_;
    options.copy_side_files = copy_side_files_;
    options.check_replicas = check_replicas_;
    options.verify = verify_;
    options.tool = "reshard " + version_;
    options.interrupted = catch_signals();
    options.hooks = hooks.get();
    options.gpus = gpus();

    const pipeline::Formats formats = known_formats();
    pipeline::RunResult result;
    {
      Progress progress(first && !common.quiet);
      options.progress_bytes = &progress.done_bytes;
      options.progress_total = &progress.total_bytes;
      result = pipeline::run(options, formats, communicator);
    }
    exchange::agreed(communicator, [&] {
      if (!first) return;
      const pipeline::PlanHeader header = pipeline::plan_header(*result.prepared, options.prepare);
      if (common.report == Report::kText && !common.quiet) print_warnings(header.warnings);
      try {
        print_result(common, common.report == Report::kJson ? report::run_json(header, result)
                                                            : report::run_text(header, result));
      } catch (const Error& error) {
        std::vector<Issue> issues = error.issues();
        issues.front().message += fmt::format("; the target is complete at {}", result.target.string());
        throw Error(error.exit(), std::move(issues));
      }
    });
    return static_cast<int>(Exit::kDone);
  }

 private:
  CLI::App* parser_;
  std::string version_;
  PlanningOptions planning_;
  int threads_ = 0;
  pipeline::StagingOptions staging_;
  bool copy_side_files_ = false;
  bool check_replicas_ = false;
  bool verify_ = false;
};

}  // namespace

std::unique_ptr<Command> run_command(CLI::App& app, const std::string& version) {
  return std::make_unique<RunCommand>(app, version);
}

}  // namespace reshard::app
