#pragma once
// How a target comes to be: everything is written to TARGET.partial, which is locked while the run lives, and renamed
// into place when it is complete. A directory under the target's own name is finished or an old one, at any instant
// (interface section 3).
//
//   TARGET.partial/journal, journal.*   what is written already (journal.hpp)
//   TARGET.partial/reshard.json         the manifest; its presence makes the directory a finished target
//   TARGET.old, TARGET.replacing        for an instant, where directories cannot be exchanged (replacement.hpp)
//
// All of this is done by process 0 of a run, but for `join`.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/file.hpp"
#include "reshard/pipeline/directory_lock.hpp"
#include "reshard/pipeline/manifest.hpp"

namespace reshard::pipeline {

/// Name of the manifest in a finished target. A directory without it is no finished target.
inline constexpr const char* kManifestName = "reshard.json";

/// What a run may do with what is there.
struct StagingOptions {
  bool overwrite = false;
  bool resume = false;
};

/// Where a run begins.
enum class Start {
  kNothing,   ///< at the first byte
  kContinue,  ///< where an earlier run of the same plan was ended
  kPublish,   ///< an earlier run has written everything: only put it in place
  kFinished,  ///< the target is that of this plan already: nothing is to do
};

class Staging {
 public:
  /// Checks places: the target must not exist or be an empty directory (kExists, unless an option speaks of it);
  /// source and target are not the same place nor one inside the other, also through links; the folder above the target
  /// exists (kUsage). Nothing is changed.
  Staging(const fs::path& source, const fs::path& target, StagingOptions options);

  /// Locks a TARGET.partial that is there and decides what becomes of it. Nothing is changed but behind a kill while a
  /// target was replaced: what was moved to TARGET.old is put back or takes the place of TARGET.partial (`settle`), and
  /// beside a finished target of this plan the old one is removed. Errors:
  /// kExists where it is in use by another run, of another plan, or no option says what to do with it, and where it has
  /// neither manifest nor journal but files of somebody's: only `overwrite` without `resume` discards those.
  Start claim(const std::string& plan_digest);
  /// After claim: a locked TARGET.partial with the folders of `files` and a journal without extents, or, to continue,
  /// one that holds nothing but those of `files` that are there, and journals. `beside`: names of other files that a
  /// run of this plan makes (index, side files): they are made again. Errors: kExists, also where a directory to
  /// continue holds what no run of this plan has made; kIo.
  void create(const std::string& plan_digest, const std::vector<std::string>& files,
              const std::vector<std::string>& beside);
  /// After create, on every process: each holds the lock, so that the directory stays locked until the last of them
  /// ends. Errors: kExists.
  void join();
  /// Makes the directory durable, without journals, and puts it in place of the target; an old one is exchanged and
  /// then removed. The manifest is there, all files are on disk. `listed`: the manifest's file_list. Errors: kExists
  /// where the directory holds a file that the manifest does not list, or an empty folder, or where something has
  /// appeared at the target; kMissing where one that it lists is gone or has another size; kIo.
  void publish(const std::map<std::string, ManifestFile>& listed);

  /// TARGET.partial
  const fs::path& directory() const { return directory_; }
  const fs::path& target() const { return target_; }

  /// Errors: kUsage where an input, links followed, lies in the target or the staging directory: it would go with them.
  void check_outside(const fs::path& file) const;

 private:
  Start claim_complete(const std::string& plan_digest, const std::string& staged_digest);
  Start claim_unfinished(const std::string& plan_digest);
  /// Whether it is there. Errors: kExists where it may not be.
  void check_target();
  /// Of a directory without manifest and journal.
  void check_ours() const;
  /// Of a target that is there and may not be replaced.
  Start claim_target(const std::string& plan_digest) const;

  fs::path target_;
  fs::path directory_;
  fs::path replaced_;  ///< where a killed run has left an old target; else empty
  StagingOptions options_;
  bool target_exists_ = false;  ///< with something in it
  Start start_ = Start::kNothing;
  std::optional<DirectoryLock> lock_;
};

/// Whether a report may be put there: errors kUsage where the folder above it does not exist, where it is or lies in
/// one of the inputs (the plan, checkpoints), or in any finished target or staging directory, links followed.
void check_output(const fs::path& output, const std::vector<fs::path>& inputs);

/// The same for a command that knows a target: errors kUsage where the report would be, or lie in, one of the
/// places where a run makes and replaces things, TARGET, TARGET.partial, TARGET.old and TARGET.replacing.
void check_output_beside(const fs::path& output, const fs::path& target);

/// Puts the manifest into the staging directory, flushed, in one step: it is there whole or not at all.
void write_manifest(const fs::path& directory, std::string_view text);

}  // namespace reshard::pipeline
