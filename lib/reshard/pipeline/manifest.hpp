#pragma once
// reshard.json: what a finished target is (interface section 2). Written last; a directory without it is not a finished
// target.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding.hpp"

namespace reshard::pipeline {

struct ManifestFile {
  std::int64_t bytes = 0;
  std::uint64_t digest = 0;

  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

struct ManifestContent {
  std::string tool;  ///< "reshard 0.1.0"
  std::string plan_digest;
  std::string format;
  std::optional<std::string> files;  ///< template; nothing for a numbered set
  const plan::Side& target;
  const planner::BoundPlan& bound;
  std::vector<std::uint64_t> digests;         ///< by tensor of `bound`
  std::vector<std::uint64_t> source_digests;  ///< by tensor; used where the dtype changes
  std::map<std::string, ManifestFile> file_list;
};

/// The text of the manifest; the same content gives the same text.
std::string to_json(const ManifestContent& content);

}  // namespace reshard::pipeline
