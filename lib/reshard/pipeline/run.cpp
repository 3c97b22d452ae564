#include "reshard/pipeline/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "reshard/base/crc64.hpp"
#include "reshard/base/directory.hpp"
#include "reshard/pipeline/direct.hpp"
#include "reshard/pipeline/exchanged.hpp"
#include "reshard/pipeline/gpu_exchanged.hpp"
#include "reshard/pipeline/job.hpp"
#include "reshard/pipeline/manifest.hpp"
#include "reshard/pipeline/peak_rss.hpp"
#include "reshard/pipeline/read_back.hpp"
#include "reshard/pipeline/replicas.hpp"
#include "reshard/pipeline/resume.hpp"
#include "reshard/pipeline/side_files.hpp"
#include "reshard/pipeline/staged_files.hpp"

namespace reshard::pipeline {
namespace {

using exchange::agreed;
using exchange::Communicator;

fs::path target_path(const plan::ParallelPlan& plan, const PrepareOptions& options) {
  if (options.target) return *options.target;
  if (plan.target.path) return *plan.target.path;
  throw Error(
      Issue{ErrorCode::kUsage, "", kNoTensor, "no target: give --target DIR or `target: {path: DIR}` in the plan"});
}

/// All processes must have made the same plan of the same files.
/// All processes derive the same rounds, each for itself, from what this holds against each other. Collective.
void check_same_plan(Communicator& communicator, const std::string& digest, const PrepareOptions& options) {
  if (!exchange::same_everywhere(communicator, digest))
    throw Error(
        Issue{ErrorCode::kMissing, "", kNoTensor,
              "the processes do not see the same plan and source: is the source on a file system that all nodes "
              "share?"});
  if (!exchange::same_everywhere(communicator, fmt::format("{} {} {}", name(options.transport), options.memory_bytes,
                                                           options.device_memory_bytes)))
    throw Error(Issue{ErrorCode::kUsage, "", kNoTensor,
                      "the processes were started with different --transport, --memory or --device-memory"});
}

/// With what GPUs take part; nothing where there are none and `transport` leaves it open. Collective, the same on every
/// process. Errors: kDevice where they are asked for.
std::optional<std::string> gpus_for(Transport transport, exchange::Gpus* gpus, Communicator& communicator) {
  const bool asked = transport == Transport::kNccl;
  if (!asked && (transport != Transport::kAuto || communicator.size() == 1)) return std::nullopt;
  const std::optional<std::string> refusal =
      gpus == nullptr ? "this build is without CUDA and NCCL (reshard --version)" : gpus->refusal(communicator);
  if (!refusal) return fmt::format("CUDA {}, NCCL {}", gpus->cuda_version(), gpus->nccl_version());
  if (!asked) return std::nullopt;
  throw exchange::AgreedError(
      Error(Issue{ErrorCode::kDevice, "", kNoTensor,
                  fmt::format("--transport nccl: {}; --transport mpi does the same from host memory", *refusal)}));
}

std::vector<std::string> names_of(const TargetFiles& target) {
  std::vector<std::string> out;
  for (const TargetFile& file : target.files) out.push_back(file.name);
  return out;
}

/// Tensor bytes that a run writes into each file.
std::int64_t written_bytes(const Prepared& prepared, std::size_t file) {
  const FileClass& file_class = prepared.target.class_of(file);
  std::int64_t out = 0;
  for (const format::NewTensor& tensor : file_class.content.tensors)
    out += checked_product(tensor.shape) * size_bytes(tensor.dtype);
  return out;
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

JournaledFiles journaled_files(const Prepared& prepared) {
  JournaledFiles out{prepared.plan_digest, names_of(prepared.target), {}};
  for (std::size_t f = 0; f < out.names.size(); ++f) out.bytes.push_back(prepared.map->file_bytes(f));
  return out;
}

/// A GPU holds its memory until it is closed: what goes that way goes first, then what is read directly, then the
/// exchange from host memory. Returns the peak of this process's buffers.
std::int64_t move_tensors(const Job& job, const TransportPlan& transport, std::unique_ptr<exchange::Device> device) {
  std::int64_t peak_bytes = 0;
  if (device) {
    peak_bytes = run_gpu_exchanged(job, transport.exchange, transport.exchanged, *device);
    device.reset();
  }
  planner::Selection direct = transport.exchanged;
  direct.flip();
  if (std::find(direct.begin(), direct.end(), true) != direct.end())
    agreed(job.communicator, [&] {
      const DirectCost& cost = transport.direct[static_cast<std::size_t>(job.communicator.rank())];
      peak_bytes = std::max(peak_bytes, run_direct(job, cost, direct));
    });
  if (transport.transport == Transport::kMpi)
    peak_bytes = std::max(peak_bytes, run_exchanged(job, transport.exchange, transport.exchanged));
  return peak_bytes;
}

/// Process 0 decides for all.
Start claim(Staging& staging, const std::string& plan_digest, Hooks* hooks, Communicator& communicator) {
  Start start = Start::kNothing;
  agreed(communicator, [&] {
    enter(Phase::kClaim, hooks);
    if (communicator.rank() == 0) start = staging.claim(plan_digest);
  });
  return static_cast<Start>(communicator.broadcast(std::string(1, static_cast<char>(start))).front());
}

/// The bytes that were not written again are those that this run would have written. `changed`: numbers of extents for
/// which they are not.
void check_trusted(const Trusted& trusted, const std::vector<std::size_t>& changed, const Prepared& prepared,
                   const fs::path& directory) {
  if (changed.empty()) return;
  const Extent& first = trusted[changed.front()];
  throw Error(Exit::kCheckpoint,
              {Issue{ErrorCode::kDigest, (directory / prepared.target.files[first.file].name).string(), kNoTensor,
                     fmt::format("bytes {} to {} were written from other source bytes than there are now: the source "
                                 "has changed since the run that is continued; --overwrite without --resume begins "
                                 "again",
                                 first.begin, first.end)}});
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

/// The digests of what was read against those that the source's manifest records.
void check_recorded_digests(const Prepared& prepared, const Ledger::Totals& totals) {
  IssueList issues;
  for (std::size_t t = 0; t < prepared.work.size(); ++t) {
    const planner::WorkTensor& work = prepared.work[t];
    const auto recorded = prepared.recorded_digests.find(prepared.bound.tensors[t].source_name);
    if (recorded == prepared.recorded_digests.end()) continue;
    const std::uint64_t reg = work.converts() ? totals.source_registers[t] : totals.target_registers[t];
    const std::uint64_t read = crc64::finish(reg, work.tiling->tensor_elements() * work.source_element_bytes);
    if (read != recorded->second)
      issues.add(
          {ErrorCode::kDigest, prepared.source.root().string(), recorded->first,
           fmt::format("has the digest {}, the source's manifest says {}: the files have changed since they were "
                       "written; nothing is published",
                       crc64::to_hex(read), crc64::to_hex(recorded->second))});
  }
  issues.throw_if_any(Exit::kCheckpoint);
}

bool is_there(const fs::path& path) {
  return fs::exists(status_of(path));
}

/// Of a run that found everything done.
RunResult without_work(RunResult result, std::int64_t peak_bytes, Communicator& communicator) {
  const auto processes = static_cast<std::size_t>(communicator.size());
  result.bytes_resumed = result.prepared->target.tensor_bytes();
  result.stages.resize(kStages);
  result.bytes_read.assign(processes, 0);
  result.peak_staging_bytes = gathered(communicator, peak_bytes);
  result.peak_rss_bytes = gathered(communicator, peak_rss_bytes());
  return result;
}

/// The manifest that an earlier run has left, on every process.
std::string staged_manifest(const Staging& staging, Communicator& communicator) {
  std::string text;
  agreed(communicator, [&] {
    if (communicator.rank() == 0) text = read_text(staging.directory() / kManifestName, kManifestBytes);
  });
  return communicator.broadcast(std::move(text));
}

/// --verify: what lies in the staging directory against the manifest that it gets or has. Returns the peak of this
/// process's buffers.
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
           fmt::format("was written, but read back it is not the same: expected {}, found {}; nothing is published; "
                       "--overwrite without --resume begins again",
                       problem.expected, problem.found)});
    issues.throw_if_any(Exit::kInternal);
  });
  return found.peak_bytes;
}

/// `staged`: set once there is a staging directory that holds a part of the target.
RunResult run_noting_stage(const RunOptions& options, const Formats& formats, Communicator& communicator,
                           bool& staged) {
  const auto begin = std::chrono::steady_clock::now();
  const bool first = communicator.rank() == 0;
  RunResult result;

  std::optional<Staging> staging;
  std::optional<LoadedPlan> loaded;
  agreed(communicator, [&] {
    enter(Phase::kPrepare, options.hooks);
    loaded = load_plan(options.prepare);
    const fs::path target = target_path(loaded->plan, options.prepare);
    const fs::path source = source_path(loaded->plan, options.prepare);
    staging.emplace(source, target, options.staging);
  });
  PrepareOptions how = options.prepare;
  if (!how.machine) {
    how.machine = machine_of(source_path(loaded->plan, how), communicator);
    how.machine->gpus = gpus_for(how.transport, options.gpus, communicator);
  }
  agreed(communicator, [&] { result.prepared = prepare(std::move(*loaded), how, formats); });
  const Prepared& prepared = *result.prepared;
  result.target = staging->target();
  agreed(communicator, [&] {
    check_same_plan(communicator, prepared.plan_digest, how);
    for (const std::string& name : prepared.source.file_names()) staging->check_outside(prepared.source.root() / name);
    staging->check_outside(options.prepare.plan_file);
  });

  const std::vector<std::string> names = names_of(prepared.target);
  std::vector<std::string> taken = names;
  taken.insert(taken.end(), {prepared.target.index_name, kManifestName});
  result.side_files_left = side_files(prepared.source.root(), prepared.source.ignored(), taken);

  result.start = claim(*staging, prepared.plan_digest, options.hooks, communicator);
  if (result.start == Start::kPublish || result.start == Start::kFinished) {
    std::int64_t peak_bytes = 0;
    if (result.start == Start::kPublish) {
      if (options.verify)
        peak_bytes = check_written(staged_manifest(*staging, communicator), staging->directory(), options, formats,
                                   communicator);
      agreed(communicator, [&] {
        enter(Phase::kPublish, options.hooks);
        if (first) staging->publish(read_manifest(staging->directory() / kManifestName).file_list);
      });
    }
    if (result.start == Start::kFinished && is_there(staging->directory()))
      result.prepared->warnings.push_back(
          {"W_PARTIAL", staging->directory().string(), kNoTensor,
           "was left beside the finished target by another run; --resume --overwrite goes on with it, --overwrite "
           "alone discards it"});
    // The target is as its manifest says: what that run did not copy is not added.
    std::erase_if(result.side_files_left, [&](const std::string& name) { return is_there(result.target / name); });
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return without_work(std::move(result), peak_bytes, communicator);
  }

  if (options.copy_side_files) result.side_files = std::exchange(result.side_files_left, {});

  Ledger ledger(prepared.work.size(), prepared.target.files.size());
  const JournaledFiles journaled = journaled_files(prepared);
  Journal journal(staging->directory(), journaled, communicator.rank());
  Trusted trusted;
  TargetWriter writer(staging->directory(), names, *prepared.map, communicator.rank(), ledger, journal, trusted);
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
  // What a GPU refuses is refused before there is a staging directory. One that is continued is there, and read first.
  std::unique_ptr<exchange::Device> device;
  const auto open_device = [&] {
    if (prepared.transport.transport == Transport::kNccl)
      device = open_gpu(*options.gpus, communicator, prepared.transport.exchange);
  };
  if (result.start != Start::kContinue) open_device();
  agreed(communicator, [&] {
    enter(Phase::kStage, options.hooks);
    std::vector<std::string> beside = {prepared.target.index_name};
    for (const auto* names_beside : {&result.side_files, &result.side_files_left})
      beside.insert(beside.end(), names_beside->begin(), names_beside->end());
    if (first) staging->create(prepared.plan_digest, names, beside);
  });
  staged = true;
  agreed(communicator, [&] { staging->join(); });
  if (result.start == Start::kContinue) {
    peak_bytes =
        std::max(peak_bytes, trust_earlier_run(job, prepared.target, staging->directory(), journaled, trusted));
    result.bytes_resumed = trusted.bytes();
    open_device();
  } else {
    agreed(communicator, [&] {
      enter(Phase::kCreate, options.hooks);
      create_files(job, prepared.target, staging->directory());
    });
  }
  agreed(communicator, [&] {
    enter(Phase::kMove, options.hooks);
    journal.open();
  });

  peak_bytes = std::max(peak_bytes, move_tensors(job, prepared.transport, std::move(device)));
  communicator.barrier();

  Ledger::Totals totals;
  {
    const StageTimer timer(ledger, Stage::kPublish, 0);
    agreed(communicator, [&] {
      enter(Phase::kFlush, options.hooks);
      for (std::size_t f = 0; f < names.size(); ++f)
        if (trusted.is_kept(f))
          for (const auto& [tensor_begin, tensor_end] : prepared.target.class_of(f).tensor_ranges())
            writer.zero_rest(f, tensor_begin, tensor_end);
      digest_headers(job, prepared.target, staging->directory());
      for (const std::size_t f : writer.files()) {
        check_interrupted(job);
        writer.sync(f);
      }
      journal.close();
    });
    const std::vector<std::size_t> changed = trusted.changed(communicator);
    agreed(communicator, [&] { check_trusted(trusted, changed, prepared, staging->directory()); });
    totals = ledger.totals(communicator);
    std::string manifest;
    std::map<std::string, ManifestFile> files;
    agreed(communicator, [&] {
      enter(Phase::kManifest, options.hooks);
      for (std::size_t t = 0; t < prepared.work.size(); ++t)
        if (totals.tensor_elements[t] != prepared.work[t].tiling->tensor_elements())
          internal_error(fmt::format("{} of {} elements of '{}' were moved", totals.tensor_elements[t],
                                     prepared.work[t].tiling->tensor_elements(),
                                     prepared.bound.tensors[t].target_name));
      check_recorded_digests(prepared, totals);
      for (std::size_t f = 0; f < names.size(); ++f)
        if (totals.file_bytes[f] > written_bytes(prepared, f))
          internal_error(fmt::format("{} of {} tensor bytes were written to {}", totals.file_bytes[f],
                                     written_bytes(prepared, f), names[f]));
      if (!first) return;
      prepared.source.check_unchanged();
      files = file_list(prepared, totals);
      files.merge(copy_side_files(prepared.source.root(), result.side_files, staging->directory()));
      if (!prepared.target.index_name.empty()) {
        const std::string& text = prepared.target.index_text;
        write_text(staging->directory() / prepared.target.index_name, text);
        files[prepared.target.index_name] = {static_cast<std::int64_t>(text.size()),
                                             crc64::digest(std::as_bytes(std::span(text)))};
      }
      manifest = to_json(manifest_of(prepared, options, totals, files));
    });
    if (options.verify)
      peak_bytes = std::max(peak_bytes, check_written(communicator.broadcast(manifest), staging->directory(), options,
                                                      formats, communicator));
    agreed(communicator, [&] {
      enter(Phase::kPublish, options.hooks);
      check_interrupted(job);
    });
    staged = false;  // from here on it may be the target itself
    agreed(communicator, [&] {
      if (!first) return;
      write_manifest(staging->directory(), manifest);
      staging->publish(files);
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

}  // namespace

RunResult run(const RunOptions& options, const Formats& formats, Communicator& communicator) {
  bool staged = false;
  try {
    return run_noting_stage(options, formats, communicator, staged);
  } catch (const exchange::AgreedError& error) {
    // A full disk or a failing one is seen to, and then the run goes on.
    if (!staged || error.exit() != Exit::kIo) throw;
    std::vector<Issue> issues = error.issues();
    issues.back().message += fmt::format("; {}", kKeptText);
    throw exchange::AgreedError(Error(error.exit(), std::move(issues)));
  }
}

}  // namespace reshard::pipeline
