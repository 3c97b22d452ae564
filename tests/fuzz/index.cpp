// The index of a Hugging Face set; an accepted one, written again, reads the same.

#include "reshard/format/safetensors/index.hpp"

#include <string>
#include <vector>

#include "fuzz/target.hpp"

using namespace reshard;
using format::safetensors::Index;

namespace {

Index index_of(std::string_view text) {
  const fuzz::InputFile input(text);
  return format::safetensors::read_index(input.path());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Index read;
  if (!fuzz::accepts(Exit::kCheckpoint, [&] { read = index_of(fuzz::text_of(data, size)); })) return 0;
  std::vector<std::string> names;
  for (const auto& [file, tensors] : read.files()) {
    fuzz::require(fs::path(file).filename() == file, "files have bare names");
    names.push_back(file);
  }
  fuzz::require(format::safetensors::unlisted_parts(read, names).empty(), "files of the index are listed");
  const Index again = index_of(to_json(read));
  fuzz::require(again.weight_map == read.weight_map, "an index is read as it was written");
  if (read.total_size) fuzz::require(again.total_size == read.total_size, "a size is read as it was written");
  return 0;
}
