#include "reshard/report/error_report.hpp"

#include <nlohmann/json.hpp>

#include "reshard/report/json_document.hpp"

namespace reshard::report {

std::string error_text(const Error& error) {
  return std::string(error.what()) + "\n";
}

std::string error_json(const Error& error) {
  using Json = nlohmann::ordered_json;
  JsonDocument document("reshard.error");
  document.begin_list("errors");
  for (const Issue& issue : error.issues()) {
    const Json json = {{"code", code_name(issue.code)},
                       {"where", issue.where},
                       {"tensor", issue.tensor.value_or("")},
                       {"message", issue.message}};
    document.element(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  document.end_list();
  return document.finish();
}

}  // namespace reshard::report
