#include "unit/pipeline/checkpoint_fixtures.hpp"

#include "reshard/format/safetensors/safetensors.hpp"
#include "reshard/plan/plan.hpp"

namespace reshard::test {

const pipeline::Formats& test_formats() {
  static const pipeline::Formats formats = [] {
    std::vector<std::unique_ptr<format::FileFormat>> list;
    list.push_back(format::make_safetensors());
    return pipeline::Formats(std::move(list));
  }();
  return formats;
}

void write_checkpoint(const fs::path& path, std::vector<format::NewTensor> tensors) {
  format::NewFile file;
  file.tensors = std::move(tensors);
  format::make_safetensors()->create(path, file, 0);
}

PreparedPlan prepare_plan(std::string_view yaml, const fs::path& source, pipeline::PrepareOptions options) {
  options.source = source;
  return {options,
          pipeline::prepare({plan::read_plan(yaml, plan::Notation::kYaml, "plan.yaml")}, options, test_formats())};
}

}  // namespace reshard::test
