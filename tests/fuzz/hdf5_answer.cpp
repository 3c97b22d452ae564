// What the child that reads HDF5 files says to its parent, which trusts none of it, and the parent's requests. Decoders
// take exactly what the encoder makes.

#include "fuzz/target.hpp"
#include "reshard/format/hdf5/wire.hpp"

using namespace reshard;
namespace wire = reshard::format::hdf5::wire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  if (const auto catalog = wire::decode_catalog(bytes); fuzz::note(catalog.has_value())) {
    fuzz::require(wire::encode(*catalog) == bytes, "a catalog is what its encoder writes");
    for (const format::StoredTensor& tensor : catalog->tensors)
      if (tensor.offset)
        fuzz::require(*tensor.offset + format::payload_bytes(tensor.dtype, tensor.shape) <= catalog->bytes,
                      "a tensor lies in its file");
  }
  if (const auto issues = wire::decode_issues(bytes))
    fuzz::require(wire::encode(*issues) == bytes, "issues are what their encoder writes");
  if (const auto request = wire::decode_request(bytes))
    fuzz::require(wire::encode(*request) == bytes, "a request is what its encoder writes");
  return 0;
}
