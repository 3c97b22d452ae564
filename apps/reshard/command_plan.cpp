#include <fmt/format.h>

#include "command.hpp"
#include "reshard/pipeline/plan_summary.hpp"
#include "reshard/report/check_report.hpp"
#include "reshard/report/plan_report.hpp"

namespace reshard::app {
namespace {

constexpr int kMostProcesses = 1 << 20;

class PlanCommand : public Command {
 public:
  explicit PlanCommand(CLI::App& app) {
    parser_ = app.add_subcommand("plan", "Show what run would do: reads headers only, writes nothing");
    add_planning(*parser_, planning_);
    add_common(*parser_, common, true);
    parser_->add_option(
        "--tensor", tensor_,
        "List only target tensors whose names match this pattern, as rules do: * stops at . and /, ** does not");
    parser_->add_option("--rank", rank_, "List only what this target rank stores: its local model layout");
    parser_->add_option("--processes", processes_, "Plan for this many processes without launching them")
        ->check(CLI::Range(1, kMostProcesses));
    parser_->add_flag("--check", check_, "Check the plan alone, without a checkpoint");
    add_footer(*parser_, "reshard plan plan.yaml --source llama-tp2 --processes 8 --report json");
  }

  CLI::App* parser() override { return parser_; }

  int run(MpiEnvironment& mpi) override {
    // Planning needs no second process: the first one does it, under a launcher too.
    exchange::Communicator& communicator = mpi.communicator();
    exchange::agreed(communicator, [&] {
      if (communicator.rank() == 0) make_plan(communicator.size());
    });
    return 0;
  }

 private:
  void make_plan(int launched) {
    if (common.report == Report::kHtml && (check_ || rank_))
      throw Error(Issue{ErrorCode::kUsage, "", kNoTensor,
                        fmt::format("--report html shows a dry run of all ranks; with {} say text or json",
                                    check_ ? "--check" : "--rank")});
    if (check_ && (rank_ || !tensor_.empty()))
      throw Error(Issue{ErrorCode::kUsage, "", kNoTensor,
                        fmt::format("--check looks at the plan alone and lists no tensors: leave out {}",
                                    rank_ ? "--rank" : "--tensor")});
    pipeline::PrepareOptions options = prepare_options(planning_, common);
    options.processes = processes_ > 0 ? processes_ : launched;
    options.allow_report = true;
    options.threads = default_threads(options.processes);
    options.log = log_of(common, true);
    pipeline::ListingOptions listing;
    if (!tensor_.empty()) {
      try {
        listing.tensor = plan::NamePattern(tensor_);
      } catch (const Error& error) {
        throw Error(Issue{ErrorCode::kUsage, "--tensor", kNoTensor, error.issues().front().message});
      }
    }
    listing.rank = rank_;
    list_for_report(listing);
    pipeline::LoadedPlan loaded = pipeline::load_plan(options);
    const pipeline::Formats formats = known_formats();
    if (check_) {
      print_result(common, common.report == Report::kJson
                               ? report::check_json()
                               : fmt::format("{}: the plan is well formed\n", planning_.plan_file));
      return;
    }
    const std::unique_ptr<pipeline::Prepared> prepared = pipeline::prepare(std::move(loaded), options, formats);
    const pipeline::PlanSummary summary = pipeline::summarize(*prepared, options, listing);
    print_result(common, common.report == Report::kJson   ? report::plan_json(summary)
                         : common.report == Report::kHtml ? report::plan_html(summary)
                                                          : report::plan_text(summary));
  }

  /// Each form asks for what it shows: the text draws where the tensors were narrowed down.
  void list_for_report(pipeline::ListingOptions& listing) const {
    if (common.report == Report::kJson) return;
    listing.shards = common.report == Report::kHtml || listing.tensor;
    listing.transfers = listing.shards ? pipeline::ListedTransfers::kOfEveryLayout : pipeline::ListedTransfers::kNone;
  }

  CLI::App* parser_;
  PlanningOptions planning_;
  std::string tensor_;
  std::optional<planner::Index> rank_;
  int processes_ = 0;
  bool check_ = false;
};

}  // namespace

std::unique_ptr<Command> plan_command(CLI::App& app) {
  return std::make_unique<PlanCommand>(app);
}

}  // namespace reshard::app
