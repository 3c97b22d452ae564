// The JSON report of `reshard inspect`, read as a source; an accepted one, written again, reads the same.

#include <string>

#include "fuzz/target.hpp"
#include "reshard/pipeline/inspect_reader.hpp"
#include "reshard/report/inspect_report.hpp"

using namespace reshard;

namespace {

pipeline::Inspection inspection_of(std::string_view text) {
  const fuzz::InputFile input(text);
  return pipeline::read_inspection(input.path());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pipeline::Inspection read;
  if (!fuzz::accepts(Exit::kCheckpoint, [&] { read = inspection_of(fuzz::text_of(data, size)); })) return 0;
  report::inspect_text(read);
  const pipeline::Inspection again = inspection_of(report::inspect_json(read));
  fuzz::require(again.format == read.format && again.ranks == read.ranks && again.axes == read.axes &&
                    again.files == read.files && again.bytes == read.bytes && again.tensors == read.tensors,
                "a report is read as it was written");
  return 0;
}
