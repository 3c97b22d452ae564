#include <nlohmann/json.hpp>

#include "reshard/report/header_json.hpp"
#include "reshard/report/run_report.hpp"
#include "reshard/report/stage_names.hpp"

namespace reshard::report {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string run_json(const pipeline::PlanHeader& plan, const pipeline::RunResult& result) {
  JsonDocument document("reshard.run");
  add_header(document, plan, result.target);
  Json stages = Json::object();
  for (std::size_t s = 0; s < result.stages.size(); ++s)
    stages[std::string(kStageNames[s])] = {{"seconds", result.stages[s].seconds}, {"bytes", result.stages[s].bytes}};
  document.member("seconds", dumped(result.seconds));
  document.member("stages", dumped(stages));
  document.member("bytes_read", dumped(result.bytes_read));
  document.member("peak_staging_bytes", dumped(result.peak_staging_bytes));
  document.member("peak_rss_bytes", dumped(result.peak_rss_bytes));
  document.member("bytes_resumed", dumped(result.bytes_resumed));
  document.member("digests_checked", dumped(result.digests_checked));
  document.member("side_files", json_list(result.side_files));
  document.member("side_files_left", json_list(result.side_files_left));
  add_remarks(document, plan);
  return document.finish();
}

}  // namespace reshard::report
