// The manifest of a finished target. Placements that it holds, as values again, read the same.

#include "fuzz/target.hpp"
#include "reshard/base/value.hpp"
#include "reshard/pipeline/manifest_reader.hpp"
#include "reshard/plan/canonical.hpp"

using namespace reshard;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pipeline::Manifest manifest;
  if (!fuzz::accepts(Exit::kCheckpoint,
                     [&] { manifest = pipeline::parse_manifest(fuzz::text_of(data, size), "reshard.json"); }))
    return 0;
  for (const plan::Placement& placement : manifest.placements) {
    const Value value = plan::placement_value(placement);
    const Value again = plan::placement_value(plan::read_placement(value, manifest.side, "again"));
    fuzz::require(same(value, again), "a placement is read as it was written");
  }
  for (const auto& [name, tensor] : manifest.tensors)
    fuzz::require(tensor.placement < manifest.placements.size(), "a tensor's placement is there");
  return 0;
}
