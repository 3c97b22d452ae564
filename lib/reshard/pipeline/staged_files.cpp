#include "reshard/pipeline/staged_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <system_error>

#include "reshard/base/crc64.hpp"
#include "reshard/base/directory.hpp"

namespace reshard::pipeline {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;

/// Calls work(f) for every file that is this process's turn.
template <typename Work>
void take_turns(const Job& job, const TargetFiles& target, Work&& work) {
  const auto processes = static_cast<std::size_t>(job.communicator.size());
  for (std::size_t f = static_cast<std::size_t>(job.communicator.rank()); f < target.files.size(); f += processes) {
    check_interrupted(job);
    work(f);
  }
}

void create_file(const TargetFiles& target, std::size_t f, const fs::path& path) {
  const FileClass& file_class = target.class_of(f);
  const format::FileLayout layout = target.format->create(path, file_class.content, target.files[f].rank);
  if (layout.bytes != file_class.layout.bytes || layout.offsets != file_class.layout.offsets)
    internal_error(fmt::format("{} was not laid out as planned", target.files[f].name));
}

/// Whether two files hold the same outside the tensors of their class.
bool have_equal_headers(const FileClass& file_class, const File& a, const File& b) {
  std::vector<std::byte> buffer(2 * static_cast<std::size_t>(kChunkBytes));
  for (const auto& [begin, end] : file_class.header_ranges())
    for (std::int64_t at = begin; at < end; at += kChunkBytes) {
      const auto bytes = static_cast<std::size_t>(std::min(kChunkBytes, end - at));
      const std::span<std::byte> of_a = std::span(buffer).first(bytes);
      const std::span<std::byte> of_b = std::span(buffer).last(bytes);
      a.read(at, of_a);
      b.read(at, of_b);
      if (!std::equal(of_a.begin(), of_a.end(), of_b.begin())) return false;
    }
  return true;
}

/// The file at `path` is as `fresh`, a newly made one, but for its tensor bytes.
bool is_as_created(const FileClass& file_class, const fs::path& path, const fs::path& fresh) {
  if (!fs::is_regular_file(own_status_of(path))) return false;
  const File there = File::open_to_read(path);
  return there.size() == file_class.layout.bytes && have_equal_headers(file_class, there, File::open_to_read(fresh));
}

}  // namespace

void create_files(const Job& job, const TargetFiles& target, const fs::path& directory) {
  take_turns(job, target, [&](std::size_t f) { create_file(target, f, directory / target.files[f].name); });
}

std::vector<std::int64_t> keep_files(const Job& job, const TargetFiles& target, const fs::path& directory) {
  std::vector<std::int64_t> kept(target.files.size(), 0);
  const fs::path fresh = scratch_path(directory, job.communicator.rank());
  take_turns(job, target, [&](std::size_t f) {
    const fs::path path = directory / target.files[f].name;
    create_file(target, f, fresh);
    std::error_code error;
    if (is_as_created(target.class_of(f), path, fresh)) {
      kept[f] = 1;
      fs::remove(fresh, error);
    } else {
      fs::rename(fresh, path, error);
    }
    if (error) io_error(path, "replace", error.value());
  });
  return kept;
}

void digest_headers(const Job& job, const TargetFiles& target, const fs::path& directory) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(kChunkBytes));
  take_turns(job, target, [&](std::size_t f) {
    const FileClass& file_class = target.class_of(f);
    const File file = File::open_to_write(directory / target.files[f].name);
    for (const auto& [begin, end] : file_class.header_ranges())
      for (std::int64_t at = begin; at < end; at += kChunkBytes) {
        const std::span<std::byte> piece =
            std::span(buffer).first(static_cast<std::size_t>(std::min(kChunkBytes, end - at)));
        file.read(at, piece);
        const std::int64_t behind = file_class.layout.bytes - at - std::ssize(piece);
        job.ledger.add_file(f, crc64::shift(crc64::raw(0, piece), behind), 0);
      }
  });
}

}  // namespace reshard::pipeline
