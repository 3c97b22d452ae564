#include "command.hpp"
#include "reshard/pipeline/inspect.hpp"
#include "reshard/pipeline/staging.hpp"
#include "reshard/report/inspect_report.hpp"

namespace reshard::app {
namespace {

class InspectCommand : public Command {
 public:
  explicit InspectCommand(CLI::App& app) {
    parser_ = app.add_subcommand("inspect", "Show what is in a checkpoint");
    parser_->add_option("PATH", path_, "A checkpoint directory or file")->required();
    add_common(*parser_, common);
    add_footer(*parser_, "reshard inspect llama-tp2");
  }

  CLI::App* parser() override { return parser_; }

  int run(MpiEnvironment& mpi) override {
    exchange::Communicator& communicator = mpi.communicator();
    exchange::agreed(communicator, [&] {
      if (communicator.rank() != 0) return;
      if (!common.output.empty()) pipeline::check_output(common.output, {path_});
      log_of(common, true)(path_ + ": reading the headers");
      const pipeline::Inspection inspection = pipeline::inspect(path_, known_formats(), common.allow_external);
      print_result(
          common, common.report == Report::kJson ? report::inspect_json(inspection) : report::inspect_text(inspection));
    });
    return 0;
  }

 private:
  CLI::App* parser_;
  std::string path_;
};

}  // namespace

std::unique_ptr<Command> inspect_command(CLI::App& app) {
  return std::make_unique<InspectCommand>(app);
}

}  // namespace reshard::app
