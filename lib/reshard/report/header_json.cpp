#include "reshard/report/header_json.hpp"

#include <nlohmann/json.hpp>

namespace reshard::report {
namespace {

using Json = nlohmann::ordered_json;

/// Names of tensors and files need not be UTF-8; a report is.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json side_json(const pipeline::SideSummary& side) {
  return {{"axes", side.axes}, {"ranks", side.ranks}, {"format", side.format}, {"bytes", side.bytes}};
}

}  // namespace

std::string json_list(const std::vector<std::string>& texts) {
  return dumped(Json(texts));
}

void add_header(JsonDocument& document, const pipeline::PlanHeader& plan,
                const std::optional<std::filesystem::path>& target_path) {
  Json target = side_json(plan.target);
  if (target_path) target["path"] = target_path->string();
  const pipeline::PlanTotals& totals = plan.totals;
  document.member("plan_digest", dumped(plan.plan_digest));
  document.member("source", dumped(side_json(plan.source)));
  document.member("target", dumped(target));
  document.member("processes", dumped(plan.processes));
  document.member("transport", dumped({{"name", plan.transport}, {"why", plan.transport_why}}));
  document.member("totals", dumped({{"tensors", totals.tensors},
                                    {"transfers", totals.transfers},
                                    {"bytes_read", totals.bytes_read},
                                    {"bytes_exchanged", totals.bytes_exchanged},
                                    {"bytes_written", totals.bytes_written},
                                    {"padding_bytes", totals.padding_bytes},
                                    {"rounds", totals.rounds}}));
  document.member("estimate",
                  dumped({{"seconds", plan.estimate.seconds}, {"floor_seconds", plan.estimate.floor_seconds}}));
  Json memory = {{"bound_bytes", plan.memory_bound_bytes}, {"peak_staging_bytes", plan.peak_staging_bytes}};
  if (!plan.peak_device_bytes.empty()) {
    memory["device_bound_bytes"] = plan.device_bound_bytes;
    memory["peak_device_bytes"] = plan.peak_device_bytes;
  }
  document.member("memory", dumped(memory));
}

void add_warnings(JsonDocument& document, const std::vector<Warning>& warnings) {
  document.begin_list("warnings");
  for (const Warning& warning : warnings) {
    Json json = {{"code", warning.code},
                 {"where", warning.where},
                 {"tensor", warning.tensor.value_or("")},
                 {"message", warning.message}};
    if (warning.notice) json["notice"] = true;
    document.element(dumped(json));
  }
  document.end_list();
}

void add_remarks(JsonDocument& document, const pipeline::PlanHeader& plan) {
  add_warnings(document, plan.warnings);
  document.member("ignored_files", json_list(plan.ignored_files));
  if (!plan.dropped.empty()) document.member("dropped", json_list(plan.dropped));
  if (plan.dropped_unmatched != 0) document.member("dropped_unmatched", dumped(plan.dropped_unmatched));
  if (plan.unused_optional_rules != 0) document.member("unused_optional_rules", dumped(plan.unused_optional_rules));
}

}  // namespace reshard::report
