#include "command.hpp"
#include "progress.hpp"
#include "reshard/pipeline/compare.hpp"
#include "reshard/pipeline/staging.hpp"
#include "reshard/report/compare_report.hpp"
#include "signals.hpp"

namespace reshard::app {
namespace {

class CompareCommand : public Command {
 public:
  explicit CompareCommand(CLI::App& app) {
    parser_ =
        app.add_subcommand("compare", "Say whether two checkpoints hold the same tensors, whatever their layouts");
    parser_->add_option("A", a_, "A checkpoint directory or file")->required();
    parser_->add_option("B", b_, "Another one")->required();
    parser_->add_option("--plan", plan_,
                        "A is laid out as this plan's source, B as its target; needed where a checkpoint of several "
                        "ranks has no manifest");
    add_common(*parser_, common);
    add_footer(*parser_, "reshard compare llama-tp2 llama-tp4 --plan plan.yaml");
  }

  CLI::App* parser() override { return parser_; }

  int run(MpiEnvironment& mpi) override {
    exchange::Communicator& communicator = mpi.communicator();
    const bool first = communicator.rank() == 0;
    pipeline::CompareOptions options;
    options.a = a_;
    options.b = b_;
    if (!plan_.empty()) options.plan = plan_;
    options.allow_external = common.allow_external;
    options.threads = default_threads(mpi.local_processes());
    options.interrupted = catch_signals();
    options.log = log_of(common, first);
    if (!common.output.empty())
      exchange::agreed(communicator, [&] {
        std::vector<fs::path> inputs = {a_, b_};
        if (!plan_.empty()) inputs.emplace_back(plan_);
        pipeline::check_output(common.output, inputs);
      });
    const pipeline::Formats formats = known_formats();
    pipeline::CompareResult result;
    {
      Progress progress(first && !common.quiet);
      options.progress_bytes = &progress.done_bytes;
      options.progress_total = &progress.total_bytes;
      result = pipeline::compare(options, formats, communicator);
    }
    exchange::agreed(communicator, [&] {
      if (!first) return;
      if (!common.quiet) print_warnings(result.warnings);
      print_result(common,
                   common.report == Report::kJson ? report::compare_json(result) : report::compare_text(result));
    });
    return static_cast<int>(result.same() ? Exit::kDone : Exit::kDifferent);
  }

 private:
  CLI::App* parser_;
  std::string a_;
  std::string b_;
  std::string plan_;
};

}  // namespace

std::unique_ptr<Command> compare_command(CLI::App& app) {
  return std::make_unique<CompareCommand>(app);
}

}  // namespace reshard::app
