#pragma once
// reshard.json read back (interface section 2): what a finished target says of itself, so that it can be the source of
// the next run. manifest.hpp writes it. Everything is checked that can be without the files: keys, kinds, ranges,
// placements.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/file.hpp"
#include "reshard/pipeline/manifest.hpp"
#include "reshard/plan/placement.hpp"
#include "reshard/plan/side.hpp"

namespace reshard::pipeline {

/// The largest that is read. A million tensors take about 100 MB.
inline constexpr std::int64_t kManifestBytes = std::int64_t{256} << 20;

struct ManifestTensor {
  Dtype dtype = Dtype::kU8;
  Shape shape;                ///< true, global
  std::size_t placement = 0;  ///< index into Manifest::placements
  std::uint64_t digest = 0;
  std::optional<std::uint64_t> source_digest;  ///< where a conversion wrote the tensor
  std::string stored;                          ///< its name in the files
};

struct Manifest {
  fs::path path;  ///< of the manifest itself
  std::string tool;
  std::string plan_digest;
  /// Mesh, views, format and template; no template: a numbered set, which is read by its index.
  plan::Side side;
  std::vector<plan::Placement> placements;
  std::map<std::string, ManifestTensor> tensors;  ///< by identity, with global numbers
  std::map<std::string, ManifestFile> file_list;  ///< by name relative to the directory
};

/// `path`: the manifest. Errors: kFormat naming the file and what is wrong with it; kMissing, kIo.
Manifest read_manifest(const fs::path& path);

/// The same of a text; `path`: where it is or will be. Errors: kFormat.
Manifest parse_manifest(std::string_view text, const fs::path& path);

/// The manifest of a source; nothing where `source` is a file, or a directory without one, or not there.
std::optional<Manifest> find_manifest(const fs::path& source);

}  // namespace reshard::pipeline
