#include "reshard/pipeline/resume.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reshard/base/crc64.hpp"
#include "reshard/pipeline/arena.hpp"
#include "reshard/pipeline/handle_cache.hpp"
#include "reshard/pipeline/staged_files.hpp"

namespace reshard::pipeline {
namespace {

using exchange::agreed;

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;

/// Process 0's extents on every process.
std::vector<Extent> broadcast(exchange::Communicator& communicator, const std::vector<Extent>& extents) {
  static_assert(std::is_trivially_copyable_v<Extent>);
  const std::string bytes = communicator.broadcast(
      std::string(reinterpret_cast<const char*>(extents.data()), extents.size() * sizeof(Extent)));
  std::vector<Extent> out(bytes.size() / sizeof(Extent));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

/// Leaves the elements whose flag, of the process that looked at it, is set.
void keep_flagged(exchange::Communicator& communicator, std::vector<Extent>& extents, std::vector<std::int64_t> flags) {
  communicator.all_sum(flags);
  std::size_t i = 0;
  std::erase_if(extents, [&](const Extent&) { return flags[i++] == 0; });
}

std::uint64_t register_of(const File& file, const Extent& extent, std::span<std::byte> buffer) {
  std::uint64_t reg = 0;
  for (std::int64_t at = extent.begin; at < extent.end; at += std::ssize(buffer)) {
    const std::span<std::byte> piece =
        buffer.first(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(buffer), extent.end - at)));
    file.read(at, piece);
    reg = crc64::raw(reg, piece);
  }
  return reg;
}

/// Reads this process's share of the extents. By extent: 1 where it holds what it says.
std::vector<std::int64_t> check(const Job& job, const TargetFiles& target, const fs::path& directory,
                                const std::vector<Extent>& extents, int threads, Arena& arena,
                                std::int64_t chunk_bytes) {
  HandleCache<File> files(kOpenFiles, [&](std::size_t f) {
    return std::make_shared<File>(File::open_to_write(directory / target.files[f].name));
  });
  std::vector<std::span<std::byte>> buffers;
  for (int i = 0; i < threads; ++i) buffers.push_back(arena.take(chunk_bytes));
  const auto processes = static_cast<std::size_t>(job.communicator.size());
  std::vector<std::int64_t> out(extents.size(), 0);
  std::atomic<std::size_t> next = static_cast<std::size_t>(job.communicator.rank());
  parallel_for(threads, buffers.size(), [&](std::size_t b) {
    for (std::size_t i = next.fetch_add(processes); i < extents.size(); i = next.fetch_add(processes)) {
      check_interrupted(job);
      if (std::this_thread::get_id() == job.main_thread && job.communicator.alarm_raised()) next = extents.size();
      out[i] = register_of(*files.get(extents[i].file), extents[i], buffers[b]) == extents[i].reg ? 1 : 0;
    }
  });
  return out;
}

}  // namespace

std::int64_t trust_earlier_run(const Job& job, const TargetFiles& target, const fs::path& directory,
                               const JournaledFiles& files, Trusted& trusted) {
  exchange::Communicator& communicator = job.communicator;
  std::vector<std::int64_t> kept_here;
  agreed(communicator, [&] {
    enter(Phase::kTrust, job.hooks);
    kept_here = keep_files(job, target, directory);
  });
  communicator.all_sum(kept_here);
  const std::vector<bool> kept(kept_here.begin(), kept_here.end());

  std::vector<Extent> extents;
  agreed(communicator, [&] {
    if (communicator.rank() == 0) extents = read_journals(directory, files);
  });
  extents = broadcast(communicator, extents);
  std::erase_if(extents, [&](const Extent& extent) { return !kept[extent.file]; });

  const std::int64_t chunk_bytes =
      std::min(kChunkBytes, job.memory_bytes / planner::kBufferAlignment * planner::kBufferAlignment);
  const auto threads = static_cast<int>(std::clamp<std::int64_t>(job.memory_bytes / chunk_bytes, 1, job.threads));
  Arena arena(threads * chunk_bytes);
  std::vector<std::int64_t> good;
  agreed(communicator, [&] { good = check(job, target, directory, extents, threads, arena, chunk_bytes); });
  keep_flagged(communicator, extents, std::move(good));

  agreed(communicator, [&] {
    if (communicator.rank() == 0) replace_journals(directory, files, extents);
  });
  trusted.trust(kept, std::move(extents));
  return arena.peak_bytes();
}

}  // namespace reshard::pipeline
