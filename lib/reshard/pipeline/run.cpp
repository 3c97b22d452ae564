#include "reshard/pipeline/run.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "reshard/base/crc64.hpp"
#include "reshard/pipeline/direct.hpp"
#include "reshard/pipeline/exchanged.hpp"
#include "reshard/pipeline/job.hpp"
#include "reshard/pipeline/manifest.hpp"
#include "reshard/pipeline/read_back.hpp"
#include "reshard/pipeline/replicas.hpp"
#include "reshard/pipeline/side_files.hpp"
#include "reshard/pipeline/staging.hpp"

namespace reshard::pipeline {
namespace {

using exchange::agreed;
using exchange::Communicator;

fs::path target_path(const plan::ParallelPlan& plan, const RunOptions& options) {
  if (options.target) return *options.target;
  if (plan.target.path) return *plan.target.path;
  throw Error(Issue{ErrorCode::kUsage, "", "", "no target: give --target DIR or `target: {path: DIR}` in the plan"});
}

/// All processes must have made the same plan of the same files.
void check_same_plan(Communicator& communicator, const std::string& digest) {
  const std::vector<std::string> all = communicator.all_gather(digest);
  if (std::all_of(all.begin(), all.end(), [&](const std::string& d) { return d == all.front(); })) return;
  throw Error(
      Issue{ErrorCode::kMissing, "", "",
            "the processes do not see the same plan and source: is the source on a file system that all nodes share?"});
}

std::vector<std::string> names_of(const TargetFiles& target) {
  std::vector<std::string> out;
  for (const TargetFile& file : target.files) out.push_back(file.name);
  return out;
}

/// The processes take turns in creating the files.
void create_files(const Prepared& prepared, const fs::path& directory, const Communicator& communicator) {
  const TargetFiles& target = prepared.target;
  const auto processes = static_cast<std::size_t>(communicator.size());
  for (std::size_t f = static_cast<std::size_t>(communicator.rank()); f < target.files.size(); f += processes) {
    const FileClass& file_class = target.classes[target.files[f].file_class];
    format::NewFile content = file_class.content;
    content.rank = target.files[f].rank;
    const format::FileLayout layout = target.format->create(directory / target.files[f].name, content);
    if (layout.bytes != file_class.layout.bytes || layout.offsets != file_class.layout.offsets)
      internal_error(fmt::format("{} was not laid out as planned", target.files[f].name));
  }
}

/// Everything in the files that is no tensor byte: headers, gaps. Digested by the processes in turn, after the tensors
/// are written.
void digest_headers(const Prepared& prepared, const fs::path& directory, const Communicator& communicator,
                    Ledger& ledger) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 20;
  std::vector<std::byte> buffer(static_cast<std::size_t>(kChunk));
  const TargetFiles& target = prepared.target;
  const auto processes = static_cast<std::size_t>(communicator.size());
  for (std::size_t f = static_cast<std::size_t>(communicator.rank()); f < target.files.size(); f += processes) {
    const FileClass& file_class = target.classes[target.files[f].file_class];
    std::vector<std::pair<std::int64_t, std::int64_t>> tensors;  // [begin, end)
    for (std::size_t i = 0; i < file_class.tensors.size(); ++i) {
      const format::NewTensor& tensor = file_class.content.tensors[i];
      const std::int64_t bytes = checked_product(tensor.shape) * size_bytes(tensor.dtype);
      if (bytes > 0) tensors.emplace_back(file_class.layout.offsets[i], file_class.layout.offsets[i] + bytes);
    }
    tensors.emplace_back(file_class.layout.bytes, file_class.layout.bytes);
    std::sort(tensors.begin(), tensors.end());
    const File file = File::open_to_read(directory / target.files[f].name);
    std::int64_t at = 0;
    for (const auto& [begin, end] : tensors) {
      while (at < begin) {
        const std::span<std::byte> piece =
            std::span(buffer).first(static_cast<std::size_t>(std::min(kChunk, begin - at)));
        file.read(at, piece);
        at += static_cast<std::int64_t>(piece.size());
        ledger.add_file(f, crc64::shift(crc64::raw(0, piece), file_class.layout.bytes - at), 0);
      }
      at = end;
    }
  }
}

/// Tensor bytes that a run writes into each file.
std::int64_t written_bytes(const Prepared& prepared, std::size_t file) {
  const FileClass& file_class = prepared.target.classes[prepared.target.files[file].file_class];
  std::int64_t out = 0;
  for (const format::NewTensor& tensor : file_class.content.tensors)
    out += checked_product(tensor.shape) * size_bytes(tensor.dtype);
  return out;
}

/// Of this program alone. Where there is no /proc, an upper bound: getrusage includes the launcher that became it.
std::int64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

/// One number of every process, by rank.
std::vector<std::int64_t> gathered(Communicator& communicator, std::int64_t mine) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(communicator.size()), 0);
  out[static_cast<std::size_t>(communicator.rank())] = mine;
  communicator.all_sum(out);
  return out;
}

std::vector<StageResult> gathered_stages(Communicator& communicator, const Ledger& ledger) {
  std::vector<StageResult> out;
  for (std::size_t s = 0; s < kStages; ++s) {
    const auto stage = static_cast<Stage>(s);
    const std::vector<std::int64_t> microseconds =
        gathered(communicator, static_cast<std::int64_t>(ledger.stage_seconds(stage) * 1e6));
    const std::vector<std::int64_t> bytes = gathered(communicator, ledger.stage_bytes(stage));
    out.push_back({static_cast<double>(*std::max_element(microseconds.begin(), microseconds.end())) * 1e-6,
                   std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})});
  }
  return out;
}

std::map<std::string, ManifestFile> file_list(const Prepared& prepared, const Ledger::Totals& totals) {
  std::map<std::string, ManifestFile> out;
  for (std::size_t f = 0; f < prepared.target.files.size(); ++f) {
    const std::int64_t bytes = prepared.map->file_bytes(f);
    out[prepared.target.files[f].name] = {bytes, crc64::finish(totals.file_registers[f], bytes)};
  }
  return out;
}

ManifestContent manifest_of(const Prepared& prepared, const RunOptions& options, const Ledger::Totals& totals,
                            std::map<std::string, ManifestFile> files) {
  ManifestContent out{options.tool,
                      prepared.plan_digest,
                      std::string(prepared.target.format->name()),
                      std::nullopt,
                      prepared.plan.target,
                      prepared.bound,
                      {},
                      {},
                      std::move(files)};
  if (prepared.target.index_name.empty()) out.files = prepared.target.files_template;
  for (std::size_t t = 0; t < prepared.work.size(); ++t) {
    const planner::WorkTensor& work = prepared.work[t];
    const std::int64_t elements = work.tiling->tensor_elements();
    out.digests.push_back(crc64::finish(totals.target_registers[t], elements * work.target_element_bytes));
    out.source_digests.push_back(crc64::finish(totals.source_registers[t], elements * work.source_element_bytes));
  }
  return out;
}

/// --verify: what lies in the staging directory against the manifest that is about to be written. Returns the peak of
/// this process's buffers.
std::int64_t check_written(const std::string& manifest, const fs::path& directory, const RunOptions& options,
                           const Formats& formats, Communicator& communicator) {
  ReadBackOptions read;
  read.allow_external = options.prepare.allow_external;
  read.from_disk = true;
  read.memory_bytes = options.prepare.memory_bytes;
  read.threads = options.prepare.threads;
  read.hooks = options.hooks;
  read.interrupted = options.interrupted;
  read.progress_bytes = options.progress_bytes;
  const Manifest expected = parse_manifest(manifest, directory / kManifestName);
  const ReadBack found = read_back(expected, directory, formats, read, communicator);
  agreed(communicator, [&] {
    IssueList issues;
    for (const TargetProblem& problem : found.problems)
      issues.add(
          {problem.code, (directory / problem.file).string(), problem.tensor,
           fmt::format("was written, but read back it is not the same: expected {}, found {}; nothing is published",
                       problem.expected, problem.found)});
    issues.throw_if_any(Exit::kInternal);
  });
  return found.peak_bytes;
}

}  // namespace

RunResult run(const RunOptions& options, const Formats& formats, Communicator& communicator) {
  const auto begin = std::chrono::steady_clock::now();
  const bool first = communicator.rank() == 0;
  RunResult result;

  std::optional<Staging> staging;
  agreed(communicator, [&] {
    LoadedPlan loaded = load_plan(options.prepare);
    const fs::path target = target_path(loaded.plan, options);
    staging.emplace(source_path(loaded.plan, options.prepare), target, options.overwrite);
    result.prepared = prepare(std::move(loaded), options.prepare, formats);
  });
  const Prepared& prepared = *result.prepared;
  result.target = staging->target();
  agreed(communicator, [&] { check_same_plan(communicator, prepared.plan_digest); });

  const std::vector<std::string> names = names_of(prepared.target);
  std::vector<std::string> taken = names;
  taken.insert(taken.end(), {prepared.target.index_name, kManifestName});
  result.side_files_left = side_files(prepared.source.root(), prepared.source.ignored(), taken);
  if (options.copy_side_files) result.side_files = std::exchange(result.side_files_left, {});

  Ledger ledger(prepared.work.size(), prepared.target.files.size());
  TargetWriter writer(staging->directory(), names, *prepared.map, communicator.rank(), ledger);
  SourceReaders readers(prepared.source, options.prepare.allow_external);
  Job job{prepared.bound, prepared.work, prepared.source, readers, *prepared.map, writer, ledger, communicator};
  job.memory_bytes = options.prepare.memory_bytes;
  job.threads = options.prepare.threads;
  job.hooks = options.hooks;
  job.interrupted = options.interrupted;
  job.progress_bytes = options.progress_bytes;
  if (options.progress_total != nullptr) {
    *options.progress_total = (options.verify ? 2 : 1) * prepared.target.tensor_bytes() / communicator.size();
  }

  std::int64_t peak_bytes = 0;
  if (options.check_replicas) peak_bytes = check_replicas(job);
  agreed(communicator, [&] {
    if (first) staging->create(names);
  });
  agreed(communicator, [&] { create_files(prepared, staging->directory(), communicator); });

  if (prepared.transport.transport == Transport::kDirect) {
    agreed(communicator, [&] {
      peak_bytes = std::max(peak_bytes,
                            run_direct(job, prepared.transport.direct[static_cast<std::size_t>(communicator.rank())]));
    });
  } else {
    peak_bytes = std::max(peak_bytes, run_exchanged(job, prepared.transport.exchange));
  }
  communicator.barrier();

  Ledger::Totals totals;
  {
    const StageTimer timer(ledger, Stage::kPublish, 0);
    agreed(communicator, [&] {
      check_interrupted(job);
      digest_headers(prepared, staging->directory(), communicator, ledger);
      writer.sync();
    });
    totals = ledger.totals(communicator);
    std::string manifest;
    agreed(communicator, [&] {
      for (std::size_t t = 0; t < prepared.work.size(); ++t)
        if (totals.tensor_elements[t] != prepared.work[t].tiling->tensor_elements())
          internal_error(fmt::format("{} of {} elements of '{}' were moved", totals.tensor_elements[t],
                                     prepared.work[t].tiling->tensor_elements(),
                                     prepared.bound.tensors[t].target_name));
      for (std::size_t f = 0; f < names.size(); ++f)
        if (totals.file_bytes[f] > written_bytes(prepared, f))
          internal_error(fmt::format("{} of {} tensor bytes were written to {}", totals.file_bytes[f],
                                     written_bytes(prepared, f), names[f]));
      if (!first) return;
      std::map<std::string, ManifestFile> files = file_list(prepared, totals);
      files.merge(copy_side_files(prepared.source.root(), result.side_files, staging->directory()));
      if (!prepared.target.index_name.empty()) {
        const std::string& text = prepared.target.index_text;
        write_text(staging->directory() / prepared.target.index_name, text);
        files[prepared.target.index_name] = {static_cast<std::int64_t>(text.size()),
                                             crc64::digest(std::as_bytes(std::span(text)))};
      }
      manifest = to_json(manifest_of(prepared, options, totals, std::move(files)));
    });
    if (options.verify)
      peak_bytes = std::max(peak_bytes, check_written(communicator.broadcast(manifest), staging->directory(), options,
                                                      formats, communicator));
    agreed(communicator, [&] {
      check_interrupted(job);
      if (!first) return;
      write_text(staging->directory() / kManifestName, manifest);
      staging->publish();
    });
  }

  result.digests_checked = totals.checks;
  result.stages = gathered_stages(communicator, ledger);
  result.bytes_read = gathered(communicator, ledger.stage_bytes(Stage::kRead));
  result.peak_staging_bytes = gathered(communicator, peak_bytes);
  result.peak_rss_bytes = gathered(communicator, peak_rss_bytes());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace reshard::pipeline
