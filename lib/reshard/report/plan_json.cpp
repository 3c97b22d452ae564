#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "reshard/report/header_json.hpp"
#include "reshard/report/plan_report.hpp"

namespace reshard::report {
namespace {

using Json = nlohmann::ordered_json;
using pipeline::PlanSummary;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_box(std::string& out, const planner::Box& box) {
  out += '[';
  for (std::size_t d = 0; d < box.size(); ++d)
    fmt::format_to(std::back_inserter(out), "{}[{},{}]", d == 0 ? "" : ",", box[d].begin, box[d].end);
  out += ']';
}

/// Integers only, and there may be millions: written without a tree.
std::string transfers_json(const std::vector<planner::Transfer>& transfers) {
  std::string out = "[";
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const planner::Transfer& transfer = transfers[i];
    fmt::format_to(std::back_inserter(out), R"({}{{"source_rank":{},"target_rank":{},"source_box":)", i == 0 ? "" : ",",
                   transfer.source_rank, transfer.target_rank);
    append_box(out, transfer.source_box);
    out += R"(,"target_box":)";
    append_box(out, transfer.target_box);
    out += '}';
  }
  return out + "]";
}

Json tensor_json(const PlanSummary& summary, const pipeline::TensorSummary& tensor) {
  const pipeline::LayoutSummary& layout = summary.layouts[tensor.layout];
  Json out;
  out["name"] = tensor.name;
  if (tensor.source_name != tensor.name) out["source_name"] = tensor.source_name;
  out["dtype"] = name(tensor.dtype);
  if (tensor.source_dtype != tensor.dtype) out["source_dtype"] = name(tensor.source_dtype);
  out["shape"] = layout.shape;
  out["rule"] = layout.rule ? Json(*layout.rule) : Json(nullptr);
  out["source_shard_shape"] = layout.source_shard_shape;
  out["target_shard_shape"] = layout.target_shard_shape;
  if (!layout.target_shard_shapes.empty()) {
    Json shapes = Json::array();
    for (const std::optional<Shape>& shape : layout.target_shard_shapes)
      shapes.push_back(shape ? Json(*shape) : Json(nullptr));
    out["target_shard_shapes"] = std::move(shapes);
  }
  for (const pipeline::PaddedOffsets& padded : layout.padded_offsets)
    out["padded_offsets"][std::to_string(padded.dim)] = padded.offsets;
  return out;
}

void add_tensors(JsonDocument& document, const PlanSummary& summary) {
  document.begin_list("tensors");
  for (std::size_t t = 0; t < summary.tensors.size(); ++t) {
    const pipeline::TensorSummary& tensor = summary.tensors[t];
    const pipeline::TransferList& list = summary.transfers[tensor.transfers];
    Json json = tensor_json(summary, tensor);
    if (list.first_tensor != t) {
      json["same_as"] = summary.tensors[list.first_tensor].name;
      document.element(dumped(json));
      continue;
    }
    std::string text = dumped(json);
    text.pop_back();  // the closing brace: one more member follows
    document.element(text + R"(,"transfers":)" + transfers_json(list.transfers) + "}");
  }
  document.end_list();
}

void add_ranks(JsonDocument& document, const PlanSummary& summary) {
  document.begin_list("ranks");
  for (const pipeline::RankSummary& rank : summary.ranks) {
    Json coordinates = Json::object();
    for (const auto& [axis, coordinate] : rank.coordinates) coordinates[axis] = coordinate;
    document.element(dumped({{"rank", rank.rank},
                             {"coordinates", std::move(coordinates)},
                             {"file", rank.file},
                             {"tensors", rank.tensors},
                             {"bytes", rank.bytes}}));
  }
  document.end_list();
}

}  // namespace

std::string plan_json(const PlanSummary& summary) {
  JsonDocument document("reshard.plan");
  add_header(document, summary.header, std::nullopt);
  document.begin_list("traffic");
  for (const pipeline::TrafficEntry& entry : summary.traffic)
    document.element(fmt::format(R"({{"source_rank":{},"target_rank":{},"bytes":{}}})", entry.source_rank,
                                 entry.target_rank, entry.bytes));
  document.end_list();
  add_ranks(document, summary);
  add_tensors(document, summary);
  if (summary.local_rank) {
    document.begin_list("local");
    for (const pipeline::LocalTensor& tensor : summary.local)
      document.element(
          dumped({{"name", tensor.name}, {"shape", tensor.shape}, {"bytes", tensor.bytes}, {"file", tensor.file}}));
    document.end_list();
  }
  add_remarks(document, summary.header);
  return document.finish();
}

}  // namespace reshard::report
