#pragma once
// The datasets of one file, found by walking its groups. Calls the library: in the child for files from elsewhere.

#include "reshard/format/format.hpp"

namespace reshard::format::hdf5 {

/// Errors: kFormat for a file the library cannot open, names found twice, or more names than a file of its size can
/// honestly hold (groups that contain one another). Faults of one dataset are refusals. Cost: about 50 microseconds
/// per dataset.
FileCatalog walk_file(const fs::path& path, const ReadOptions& options);

}  // namespace reshard::format::hdf5
