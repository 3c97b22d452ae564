#pragma once
// A checkpoint to read: which files make it up, which rank each belongs to, what tensors they hold and where.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/directory.hpp"
#include "reshard/base/error.hpp"
#include "reshard/format/format.hpp"
#include "reshard/pipeline/formats.hpp"
#include "reshard/pipeline/handle_cache.hpp"
#include "reshard/pipeline/manifest_reader.hpp"
#include "reshard/plan/plan.hpp"
#include "reshard/planner/catalog.hpp"

namespace reshard::pipeline {

/// Where one rank's part of a tensor lies.
struct SourceLocation {
  std::size_t file = 0;
  const format::StoredTensor* tensor = nullptr;
};

/// "by the plan holds 'w' (tensors[0])": what a rank would hold, told from what the others store; empty where that is
/// not known.
using Holdings = std::function<std::string(planner::Index rank, const planner::SourceCatalog& others)>;

class SourceCheckpoint {
 public:
  /// Finds the files as plan format section 3 says and reads their headers. Ranks are those of `side.mesh`. Nothing is
  /// read but headers, `threads` files at a time. What a manifest of the source says goes into the catalog. Errors:
  /// kMissing, kFormat, kMeshWorld (exit 4), kUnsupported (torch's sharded safetensors), those of the format and of
  /// add_records; all that are found. Of a missing rank file `holdings` is told too.
  static SourceCheckpoint open(const fs::path& path, const plan::Side& side, const Formats& formats,
                               bool allow_external, int threads, const Manifest* manifest = nullptr,
                               const Holdings& holdings = {});

  /// What a report of `inspect` tells of a checkpoint: to plan with, not to read from. Its files are not known.
  /// Errors: kFormat and kIo of the report, kMeshWorld (other ranks than those of `side.mesh`). A format that is
  /// none of `formats` is kFormat.
  static SourceCheckpoint of_report(const fs::path& report, const plan::Side& side, const Formats& formats);

  /// The files are those that the source's manifest lists. `side`: that of open(). Errors (all, exit 4): kFormat of a
  /// file that is not listed, kDigest of one of another size.
  void check_file_list(const plan::Side& side, const Manifest& manifest) const;

  /// Every file is the one whose header was read, and nobody has written to it since. Errors (all, exit 4): kDigest;
  /// kIo.
  void check_unchanged() const;

  const planner::SourceCatalog& catalog() const { return catalog_; }
  /// Empties it: once tensors are bound to rules nothing asks for it, and it takes as much memory as they do.
  void drop_catalog() { catalog_ = {}; }
  const format::FileFormat& format() const { return *format_; }
  /// Files by name relative to the checkpoint's directory, in the order of SourceLocation::file.
  const std::vector<std::string>& file_names() const { return names_; }
  const std::vector<format::FileCatalog>& files() const { return files_; }
  /// The file of every rank, where each has one: empty for an indexed set and for a report.
  std::vector<std::size_t> file_of_rank() const;
  /// The directory, or the folder of a single file given as source.
  const fs::path& root() const { return root_; }
  /// File of a rank's tensor; a tensor this rank does not have is an internal error.
  SourceLocation locate(planner::Index rank, const std::string& stored_name) const;
  /// What was left alone: names in the directory, sorted.
  const std::vector<std::string>& ignored() const { return ignored_; }
  /// Metadata on which all files agree, without `format` and `DCP_*`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<Warning>& warnings() const { return warnings_; }
  /// Sum of the bytes of all tensors in the files.
  std::int64_t tensor_bytes() const { return tensor_bytes_; }
  /// Template or set the files follow, for reports: "rank-{rank:05}.safetensors"; empty for an indexed set.
  const std::string& files_template() const { return template_; }

 private:
  struct MissingFile {
    std::size_t file = 0;
    planner::Index rank = 0;  ///< the first one that has its tensors there
    std::string what;
  };

  void collect(const plan::Side& side, const Formats& formats, const fs::path& path);
  void refuse_missing(const plan::Side& side, const format::ReadOptions& options, const Holdings& holdings);
  void read_catalogs(const format::ReadOptions& options, int threads);
  void build_catalog(planner::Index ranks);
  void agree_on_metadata();

  const format::FileFormat* format_ = nullptr;
  fs::path root_;
  std::string template_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::size_t>> files_of_rank_;
  bool indexed_ = false;
  std::int64_t tensor_bytes_ = 0;
  std::vector<FileState> states_;  ///< by file, before its header was read; empty for a report
  std::vector<format::FileCatalog> files_;
  std::vector<std::string> ignored_;
  std::map<std::string, std::string> metadata_;
  std::vector<Warning> warnings_;
  planner::SourceCatalog catalog_;
  std::vector<MissingFile> missing_;
  std::vector<std::string> beyond_;  ///< names that fit the template, of ranks that the mesh does not have
};

/// Reads tensor bytes of a source. Safe from several threads.
class SourceReaders {
 public:
  /// `source` outlives this.
  SourceReaders(const SourceCheckpoint& source, bool allow_external);
  /// Fills `out` with the tensor's bytes from logical byte `first_byte` on.
  void read(const SourceLocation& location, std::int64_t first_byte, std::span<std::byte> out);
  /// Fills `out` with the file's bytes from `offset` on (format::TensorReader::read_file).
  void read_file(std::size_t file, std::int64_t offset, std::span<std::byte> out);

 private:
  HandleCache<format::TensorReader> readers_;
};

}  // namespace reshard::pipeline
