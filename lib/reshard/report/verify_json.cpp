#include <nlohmann/json.hpp>

#include "reshard/report/json_document.hpp"
#include "reshard/report/verify_report.hpp"

namespace reshard::report {

std::string verify_json(const pipeline::Verification& verification) {
  using Json = nlohmann::ordered_json;
  JsonDocument document("reshard.verify");
  document.member("files", std::to_string(verification.files));
  document.member("tensors", std::to_string(verification.tensors));
  document.member("bytes", std::to_string(verification.bytes));
  document.begin_list("problems");
  for (const pipeline::TargetProblem& problem : verification.problems) {
    const Json json = {{"code", code_name(problem.code)},
                       {"file", problem.file},
                       {"tensor", problem.tensor.value_or("")},
                       {"expected", problem.expected},
                       {"found", problem.found}};
    document.element(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  document.end_list();
  return document.finish();
}

}  // namespace reshard::report
