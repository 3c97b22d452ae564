#pragma once
// What of a target is written already, on disk beside it, so that a run that was ended can be continued (interface
// section 3): text lines, the first naming the format and the plan digest, then one per extent: file, offset, length,
// CRC-64/XZ in hex.
//
//   reshard journal 1 995dc9bbdf1939fa
//   rank-00000.safetensors 128 33554432 1f0e9a5d3c8b7a66
//
// Process 0 appends to `journal`, process N to `journal.N`: appending is atomic on one node only, not over NFS. Nothing
// is flushed, and no line waits for its bytes: whoever trusts a line reads its bytes first.

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/file.hpp"
#include "reshard/base/process_rank.hpp"
#include "reshard/pipeline/extents.hpp"

namespace reshard::pipeline {

/// The files that journals are about. `names` and `bytes` are parallel.
struct JournaledFiles {
  std::string plan_digest;
  std::vector<std::string> names;   ///< relative to the target directory
  std::vector<std::int64_t> bytes;  ///< of the whole files
};

/// Process 0's. It is put there in one step, before any file of the target.
inline constexpr std::string_view kJournalName = "journal";

/// Names at the top of a staging directory that are kept for the work itself: `journal` and whatever begins with
/// `journal.`.
bool is_staging_name(std::string_view name);

/// Where a process may put a file of its own for a moment.
fs::path scratch_path(const fs::path& directory, ProcessRank process);

/// The plan digest that the journal of a staging directory names; nothing where there is no journal with a first line.
std::optional<std::string> journal_plan_digest(const fs::path& directory);

/// What all journals of the directory tell of the files, joined. Lines that are torn, about other files or ranges, or
/// that overlap one read before are left out, and so are journals of other plans.
std::vector<Extent> read_journals(const fs::path& directory, const JournaledFiles& files);

/// Puts one journal with these extents in place of all that are there; a kill leaves the old ones or the new one.
void replace_journals(const fs::path& directory, const JournaledFiles& files, const std::vector<Extent>& extents);

/// Removes everything of which is_staging_name holds, but for `kept`.
void remove_journals(const fs::path& directory, std::string_view kept = "");

/// One process's journal. Safe from several threads.
class Journal {
 public:
  /// What a process that is killed may have written and not told: this, and what its threads are at. So much is
  /// written again, however many files are open at a time.
  static constexpr std::int64_t kPendingBytes = std::int64_t{8} << 20;

  Journal(fs::path directory, JournaledFiles files, ProcessRank process);
  /// Appends what is pending, as far as that works.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// After replace_journals, before the first add.
  void open();
  /// An extent that has been written.
  void add(const Extent& extent);
  /// Appends what is pending and closes.
  void close();

 private:
  void append_pending();

  JournaledFiles files_;
  fs::path path_;
  std::mutex mutex_;
  File file_;
  Extents pending_;
};

}  // namespace reshard::pipeline
