#include <nlohmann/json.hpp>

#include "reshard/report/compare_report.hpp"
#include "reshard/report/header_json.hpp"

namespace reshard::report {

std::string compare_json(const pipeline::CompareResult& result) {
  using Json = nlohmann::ordered_json;
  JsonDocument document("reshard.compare");
  document.member("equal", std::to_string(result.equal));
  document.member("only_in_a", json_list(result.only_in_a));
  document.member("only_in_b", json_list(result.only_in_b));
  document.begin_list("different");
  for (const pipeline::TensorDifference& difference : result.different) {
    const Json json = {{"tensor", difference.tensor},
                       {"what", name(difference.what)},
                       {"at", difference.at ? Json(*difference.at) : Json(nullptr)},
                       {"a", difference.a},
                       {"b", difference.b},
                       {"file_a", difference.file_a},
                       {"file_b", difference.file_b}};
    document.element(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  document.end_list();
  return document.finish();
}

}  // namespace reshard::report
