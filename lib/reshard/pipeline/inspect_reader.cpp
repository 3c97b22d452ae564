#include "reshard/pipeline/inspect_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reshard/base/directory.hpp"
#include "reshard/format/safetensors/index.hpp"
#include "reshard/pipeline/document_reader.hpp"
#include "reshard/plan/side.hpp"

namespace reshard::pipeline {
namespace {

/// A million tensors take about 150 MB.
constexpr std::int64_t kReportBytes = std::int64_t{1} << 30;
constexpr DocumentKind kKind{"reshard.inspect", "report of inspect", "report of `reshard inspect --report json`"};

class InspectReader : DocumentReader {
 public:
  explicit InspectReader(const fs::path& path) : DocumentReader(path, kKind) {}

  Inspection read() && {
    const Value root = document(read_text(path_, kReportBytes));
    check_keys(root, "", kNoTensor,
               {"schema", "version", "format", "ranks", "axes", "files", "bytes", "tensors", "warnings"});
    out_.format = text(root, "format");
    out_.ranks = number(root, "ranks");
    read_side(root);
    out_.bytes = number(root, "bytes");
    for (const Value& entry : list(root, "tensors").array()) read_tensor(entry);
    std::sort(out_.tensors.begin(), out_.tensors.end(),
              [](const InspectedTensor& a, const InspectedTensor& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(out_.tensors.begin(), out_.tensors.end(),
                                          [](const auto& a, const auto& b) { return a.name == b.name; });
    if (twice != out_.tensors.end()) refuse(twice->name, "is told twice");
    return std::move(out_);
  }

 private:
  /// `axes` make the ranks, where they are known. Fields of `files` may be axes of views, of which a report is silent.
  void read_side(const Value& root) const {
    if (const Value& files = require(root, "files"); !files.is_null() && !files.is_string())
      refuse_kind({}, "files", files, "a string or null");
    const Value& axes = require(root, "axes");
    if (axes.is_null()) return;
    const plan::Side side =
        plan::read_side(Value(Value::Object{{"axes", axes, axes.position}}), plan::Role::kSource, path_.string());
    if (side.mesh.size() != out_.ranks)
      refuse({}, fmt::format("'axes' make {} ranks, 'ranks' is {}", side.mesh.size(), out_.ranks));
  }

  void read_tensor(const Value& entry) {
    check_keys(entry, "an entry of 'tensors'", kNoTensor, {"name", "dtype", "stored", "global_shape"});
    InspectedTensor tensor;
    tensor.name = text(entry, "name");
    tensor.dtype = dtype(entry, tensor.name);
    if (const Value& global = require(entry, "global_shape", tensor.name); !global.is_null())
      tensor.global_shape = shape(global, "global_shape", tensor.name);
    for (const Value& run : list(entry, "stored", tensor.name).array()) read_run(run, tensor);
    if (tensor.stored.empty()) refuse(tensor.name, "'stored' is empty, expected the shape on at least one rank");
    out_.tensors.push_back(std::move(tensor));
  }

  void read_run(const Value& run, InspectedTensor& tensor) const {
    const auto is_pair = [](const Value& value) { return value.is_array() && value.array().size() == 2; };
    if (!is_pair(run) || !is_pair(run.array()[1]) || !run.array()[1].array()[0].is_integer() ||
        !run.array()[1].array()[1].is_integer())
      refuse(tensor.name, "'stored': expected [shape, [first rank, last rank]]");
    ShapeRun out;
    out.shape = shape(run.array()[0], "stored", tensor.name);
    out.first_rank = run.array()[1].array()[0].integer();
    out.last_rank = run.array()[1].array()[1].integer();
    const planner::Index least = tensor.stored.empty() ? 0 : tensor.stored.back().last_rank + 1;
    if (out.first_rank < least || out.last_rank < out.first_rank || out.last_rank >= out_.ranks)
      refuse(tensor.name, fmt::format("'stored': ranks {} to {}, expected ascending ones of {} to {}", out.first_rank,
                                      out.last_rank, least, out_.ranks - 1));
    tensor.stored.push_back(std::move(out));
  }

  Inspection out_;
};

}  // namespace

bool is_report(const fs::path& source) {
  return source.extension() == ".json" && source.filename() != format::safetensors::kIndexName &&
         fs::is_regular_file(status_of(source));
}

Inspection read_inspection(const fs::path& path) {
  try {
    return InspectReader(path).read();
  } catch (const Error& error) {
    if (error.exit() != Exit::kPlan) throw;
    std::vector<Issue> issues = error.issues();  // what is a plan's fault in a plan: bad JSON, a repeated key
    for (Issue& issue : issues) issue.code = ErrorCode::kFormat;
    throw Error(std::move(issues));
  }
}

}  // namespace reshard::pipeline
