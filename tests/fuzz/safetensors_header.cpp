// The header of a safetensors file; an accepted one, written by our writer, reads the same.

#include <map>
#include <string>

#include "fuzz/target.hpp"
#include "reshard/format/safetensors/header.hpp"

using namespace reshard;
using format::FileCatalog;

namespace {

FileCatalog catalog_of(std::string_view bytes) {
  const fuzz::InputFile input(bytes);
  return format::safetensors::read_header(File::open_to_read(input.path()));
}

/// What the writer keeps of metadata.
std::map<std::string, std::string> kept(std::map<std::string, std::string> metadata) {
  std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with("DCP_"); });
  metadata["format"] = "pt";
  return metadata;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FileCatalog read;
  if (!fuzz::accepts(Exit::kCheckpoint, [&] { read = catalog_of(fuzz::text_of(data, size)); })) return 0;
  format::NewFile file;
  file.metadata = read.metadata;
  std::int64_t payload = 0;
  for (const format::StoredTensor& tensor : read.tensors) {
    file.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.shape});
    const std::int64_t bytes = format::payload_bytes(tensor.dtype, tensor.shape);
    if (tensor.offset)
      fuzz::require(*tensor.offset >= 8 && *tensor.offset + bytes <= read.bytes, "a tensor lies in its file");
    payload += bytes;
  }
  const format::safetensors::WrittenHeader written = format::safetensors::write_header(file, "written");
  const std::string bytes = written.bytes + std::string(static_cast<std::size_t>(payload), '\0');
  fuzz::require(written.layout.bytes == std::ssize(bytes), "a header and its tensors are the file");
  const FileCatalog again = catalog_of(bytes);
  fuzz::require(again.metadata == kept(read.metadata), "metadata are read as they were written");
  fuzz::require(again.tensors.size() == read.tensors.size(), "tensors are read as they were written");
  for (std::size_t i = 0; i < read.tensors.size(); ++i) {
    const format::StoredTensor& a = read.tensors[i];
    const format::StoredTensor& b = again.tensors[i];
    fuzz::require(
        a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.offset.has_value() == b.offset.has_value(),
        "a tensor is read as it was written");
    if (b.offset) fuzz::require(*b.offset == written.layout.offsets[i], "a tensor lies where the layout says");
  }
  return 0;
}
