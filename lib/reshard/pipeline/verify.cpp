#include "reshard/pipeline/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "reshard/base/directory.hpp"
#include "reshard/pipeline/finished_target.hpp"
#include "reshard/pipeline/replacement.hpp"
#include "reshard/pipeline/staging.hpp"

namespace reshard::pipeline {
namespace {

Manifest manifest_in(const fs::path& directory) {
  const fs::file_status status = status_of(directory);
  if (!fs::exists(status))
    throw Error(Issue{ErrorCode::kMissing, directory.string(), kNoTensor,
                      "there is no such directory" + moved_away_text(directory)});
  if (!fs::is_directory(status))
    throw Error(Issue{ErrorCode::kFormat, directory.string(), kNoTensor, "is no directory: a finished target is one"});
  std::optional<Manifest> manifest = find_manifest(directory);
  if (!manifest)
    throw Error(Issue{ErrorCode::kMissing, directory.string(), kNoTensor,
                      fmt::format("has no {}: it is no finished target", kManifestName)});
  return std::move(*manifest);
}

}  // namespace

Verification verify(const VerifyOptions& options, const Formats& formats, exchange::Communicator& communicator) {
  Verification out;
  out.directory = options.directory;
  std::optional<Manifest> manifest;
  exchange::agreed(communicator, [&] {
    manifest = manifest_in(options.directory);
    for (const std::string& name : unlisted_files(manifest->file_list, options.directory))
      out.problems.push_back(
          {ErrorCode::kDifferent, name, kNoTensor, "no file", "a file that the manifest does not list"});
  });
  out.files = std::ssize(manifest->file_list);
  out.tensors = std::ssize(manifest->tensors);
  options.log(fmt::format("{}: {} files of {} bytes, {} tensors", options.directory.string(), out.files,
                          listed_bytes(*manifest), out.tensors));
  if (options.progress_total != nullptr) *options.progress_total = listed_bytes(*manifest) / communicator.size();
  const ReadBack read = read_back(*manifest, options.directory, formats, options.read, communicator);
  out.bytes = read.bytes;
  out.problems.insert(out.problems.end(), read.problems.begin(), read.problems.end());
  // Those that are there: of the others nothing could be read.
  out.files -= std::count_if(read.problems.begin(), read.problems.end(), [](const TargetProblem& problem) {
    return problem.code == ErrorCode::kMissing && !problem.tensor;
  });
  return out;
}

}  // namespace reshard::pipeline
