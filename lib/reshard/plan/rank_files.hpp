#pragma once
// The file names of a side's ranks, by its template (plan format section 3).

#include <string>
#include <string_view>

#include "reshard/plan/file_template.hpp"
#include "reshard/plan/side.hpp"

namespace reshard::plan {

/// "rank-{rank:05}.h5"; for one rank "model.h5".
std::string default_files(layout::Index ranks, std::string_view extension);

class RankFiles {
 public:
  /// `side` outlives this. Errors: those of FileTemplate.
  RankFiles(std::string_view files, const Side& side);

  /// The file of a rank, relative to the directory.
  std::string of(layout::Index rank) const;
  /// Whether a name could be one of this template's, for whatever mesh.
  bool fits(std::string_view name) const { return template_.match(name).has_value(); }

 private:
  const Side& side_;
  FileTemplate template_;
};

}  // namespace reshard::plan
