#pragma once
// Writes pieces of target shards into the files, and keeps the files' digests and the journal. What is there already,
// from an earlier run, is not written again; its digests are those of the bytes that would have been.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshard/base/file.hpp"
#include "reshard/base/process_rank.hpp"
#include "reshard/pipeline/handle_cache.hpp"
#include "reshard/pipeline/journal.hpp"
#include "reshard/pipeline/ledger.hpp"
#include "reshard/pipeline/trusted.hpp"
#include "reshard/planner/target_map.hpp"
#include "reshard/planner/tiling.hpp"

namespace reshard::pipeline {

class TargetWriter {
 public:
  /// `directory` holds the created files, by `names` in the order of `map`'s files. All outlive this.
  TargetWriter(fs::path directory, std::vector<std::string> names, const planner::TargetMap& map, ProcessRank process,
               Ledger& ledger, Journal& journal, Trusted& trusted);

  /// Whether this process writes some of the part.
  bool writes(const planner::TargetPart& part, std::size_t tensor, std::int64_t element_bytes) const;
  /// Writes what is this process's of the part's bytes, on every rank that stores it.
  void write(const planner::TargetPart& part, std::size_t tensor, std::int64_t element_bytes,
             std::span<const std::byte> bytes);
  /// Where the part's bytes go, if that is one place and this process writes all of it.
  std::optional<planner::WriteRegion> only_region(const planner::TargetPart& part, std::size_t tensor,
                                                  std::int64_t element_bytes) const;
  /// Writes a region of this process.
  void write_region(const planner::WriteRegion& region, std::span<const std::byte> bytes);
  /// After all writes: zeros to what of tensor bytes [begin, end) of a kept file nobody writes, in this process's
  /// regions. A new file has them already.
  void zero_rest(std::size_t file, std::int64_t begin, std::int64_t end);
  /// Files of which this process writes some.
  std::vector<std::size_t> files() const;
  /// Flushes one of them to disk.
  void sync(std::size_t file) { files_.get(file)->sync(); }

 private:
  planner::TargetMap const& map_;
  ProcessRank process_;
  Ledger& ledger_;
  Journal& journal_;
  Trusted& trusted_;
  std::vector<fs::path> paths_;
  HandleCache<File> files_;
};

}  // namespace reshard::pipeline
