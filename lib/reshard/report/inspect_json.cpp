#include <nlohmann/json.hpp>

#include "reshard/report/header_json.hpp"
#include "reshard/report/inspect_report.hpp"

namespace reshard::report {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json tensor_json(const pipeline::InspectedTensor& tensor) {
  Json stored = Json::array();
  for (const pipeline::ShapeRun& run : tensor.stored)
    stored.push_back(Json::array({Json(run.shape), Json::array({run.first_rank, run.last_rank})}));
  Json out;
  out["name"] = tensor.name;
  out["dtype"] = name(tensor.dtype);
  out["stored"] = std::move(stored);
  out["global_shape"] = or_null(tensor.global_shape);
  return out;
}

}  // namespace

std::string inspect_json(const pipeline::Inspection& inspection) {
  JsonDocument document("reshard.inspect");
  document.member("format", dumped(inspection.format));
  document.member("ranks", dumped(inspection.ranks));
  document.member("axes", dumped(or_null(inspection.axes)));
  document.member("files", dumped(or_null(inspection.files)));
  document.member("bytes", dumped(inspection.bytes));
  document.begin_list("tensors");
  for (const pipeline::InspectedTensor& tensor : inspection.tensors) document.element(dumped(tensor_json(tensor)));
  document.end_list();
  add_warnings(document, inspection.warnings);
  return document.finish();
}

}  // namespace reshard::report
