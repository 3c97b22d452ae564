#include "command.hpp"
#include "progress.hpp"
#include "reshard/pipeline/staging.hpp"
#include "reshard/pipeline/verify.hpp"
#include "reshard/report/verify_report.hpp"
#include "signals.hpp"

namespace reshard::app {
namespace {

class VerifyCommand : public Command {
 public:
  explicit VerifyCommand(CLI::App& app) {
    parser_ = app.add_subcommand("verify", "Read a finished target again and compare it with its manifest");
    parser_->add_option("DIR", directory_, "A finished target: a directory with reshard.json")->required();
    add_common(*parser_, common);
    add_footer(*parser_, "reshard verify llama-tp4");
  }

  CLI::App* parser() override { return parser_; }

  int run(MpiEnvironment& mpi) override {
    exchange::Communicator& communicator = mpi.communicator();
    const bool first = communicator.rank() == 0;
    pipeline::VerifyOptions options;
    options.directory = directory_;
    options.read.allow_external = common.allow_external;
    options.read.threads = default_threads(mpi.local_processes());
    options.read.interrupted = catch_signals();
    options.log = log_of(common, first);
    if (!common.output.empty())
      exchange::agreed(communicator, [&] {
        pipeline::check_output(common.output, {directory_});
        pipeline::check_output_beside(common.output, directory_);
      });
    const pipeline::Formats formats = known_formats();
    pipeline::Verification verification;
    {
      Progress progress(first && !common.quiet);
      options.read.progress_bytes = &progress.done_bytes;
      options.progress_total = &progress.total_bytes;
      verification = pipeline::verify(options, formats, communicator);
    }
    exchange::agreed(communicator, [&] {
      if (first)
        print_result(common, common.report == Report::kJson ? report::verify_json(verification)
                                                            : report::verify_text(verification));
    });
    return static_cast<int>(verification.problems.empty() ? Exit::kDone : Exit::kDifferent);
  }

 private:
  CLI::App* parser_;
  std::string directory_;
};

}  // namespace

std::unique_ptr<Command> verify_command(CLI::App& app) {
  return std::make_unique<VerifyCommand>(app);
}

}  // namespace reshard::app
