#pragma once
// Writes pieces of target shards into the files, and keeps the files' digests.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reshard/base/file.hpp"
#include "reshard/base/process_rank.hpp"
#include "reshard/pipeline/handle_cache.hpp"
#include "reshard/pipeline/ledger.hpp"
#include "reshard/planner/target_map.hpp"
#include "reshard/planner/tiling.hpp"

namespace reshard::pipeline {

class TargetWriter {
 public:
  /// `directory` holds the created files, by `names` in the order of `map`'s files. All outlive this.
  TargetWriter(fs::path directory, std::vector<std::string> names, const planner::TargetMap& map, ProcessRank process,
               Ledger& ledger);

  /// Whether this process writes some of the part.
  bool writes(const planner::TargetPart& part, std::size_t tensor, std::int64_t element_bytes) const;
  /// Writes what is this process's of the part's bytes, on every rank that stores it.
  void write(const planner::TargetPart& part, std::size_t tensor, std::int64_t element_bytes,
             std::span<const std::byte> bytes);
  /// Flushes every file this process has written to disk.
  void sync();

 private:
  planner::TargetMap const& map_;
  ProcessRank process_;
  Ledger& ledger_;
  std::vector<fs::path> paths_;
  HandleCache<File> files_;
};

}  // namespace reshard::pipeline
