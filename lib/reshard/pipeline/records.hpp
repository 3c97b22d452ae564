#pragma once
// What a source's manifest says, put into the catalog of its files: true shapes, identities and placements for the
// planner.

#include <string>

#include "reshard/pipeline/manifest_reader.hpp"
#include "reshard/planner/catalog.hpp"

namespace reshard::pipeline {

/// Fills in StoredRun::global_shape, SourceTensor::recorded and the recorded layouts. `catalog` has the ranks of the
/// manifest's mesh. Errors (exit 4, all that are found): kFormat where files and manifest do not name the same tensors,
/// ranks or dtypes, or a placement does not fit its shape; kShape where they disagree about a stored or a global shape.
void add_records(const Manifest& manifest, planner::SourceCatalog& catalog);

/// A line for each tensor with its records, for the plan digest.
std::string records_text(const planner::SourceCatalog& catalog);

}  // namespace reshard::pipeline
