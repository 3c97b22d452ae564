#include "reshard/pipeline/target_writer.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>

#include "reshard/base/crc64.hpp"

namespace reshard::pipeline {
namespace {

std::vector<fs::path> paths_of(const fs::path& directory, const std::vector<std::string>& names) {
  std::vector<fs::path> out;
  for (const std::string& name : names) out.push_back(directory / name);
  return out;
}

}  // namespace

TargetWriter::TargetWriter(fs::path directory, std::vector<std::string> names, const planner::TargetMap& map,
                           ProcessRank process, Ledger& ledger, Journal& journal, Trusted& trusted)
    : map_(map),
      process_(process),
      ledger_(ledger),
      journal_(journal),
      trusted_(trusted),
      paths_(paths_of(directory, names)),
      files_(kOpenFiles,
             [this](std::size_t file) { return std::make_shared<File>(File::open_to_write(paths_[file])); }) {}

bool TargetWriter::writes(const planner::TargetPart& part, std::size_t tensor, std::int64_t element_bytes) const {
  for (const std::size_t file : map_.files_of(tensor, part.ranks)) {
    const std::int64_t begin = map_.offset(tensor, file) + part.first * element_bytes;
    for (const planner::WriteRegion& region : map_.regions(file, begin, begin + part.elements * element_bytes))
      if (region.process == process_) return true;
  }
  return false;
}

void TargetWriter::write(const planner::TargetPart& part, std::size_t tensor, std::int64_t element_bytes,
                         std::span<const std::byte> bytes) {
  for (const std::size_t file : map_.files_of(tensor, part.ranks)) {
    const std::int64_t begin = map_.offset(tensor, file) + part.first * element_bytes;
    for (const planner::WriteRegion& region : map_.regions(file, begin, begin + part.elements * element_bytes)) {
      if (region.process != process_) continue;
      const std::span<const std::byte> piece = bytes.subspan(static_cast<std::size_t>(region.begin - begin),
                                                             static_cast<std::size_t>(region.end - region.begin));
      write_region(region, piece);
    }
  }
}

std::optional<planner::WriteRegion> TargetWriter::only_region(const planner::TargetPart& part, std::size_t tensor,
                                                              std::int64_t element_bytes) const {
  const std::vector<std::size_t> files = map_.files_of(tensor, part.ranks);
  if (files.size() != 1) return std::nullopt;
  const std::int64_t begin = map_.offset(tensor, files.front()) + part.first * element_bytes;
  const std::vector<planner::WriteRegion> regions =
      map_.regions(files.front(), begin, begin + part.elements * element_bytes);
  if (regions.size() != 1 || regions.front().process != process_) return std::nullopt;
  return regions.front();
}

void TargetWriter::write_region(const planner::WriteRegion& region, std::span<const std::byte> bytes) {
  std::int64_t end = 0;
  for (std::int64_t at = region.begin; at < region.end; at = end) {
    // Up to the next cut, and to where a trusted extent begins or ends.
    end = std::min(region.end, next_cut(at));
    const std::size_t trusted = trusted_.find(region.file, at);
    const bool is_there = trusted < trusted_.size() && trusted_[trusted].begin <= at;
    if (trusted < trusted_.size()) end = std::min(end, is_there ? trusted_[trusted].end : trusted_[trusted].begin);
    const std::span<const std::byte> piece =
        bytes.subspan(static_cast<std::size_t>(at - region.begin), static_cast<std::size_t>(end - at));
    if (!is_there) files_.get(region.file)->write(at, piece);
    const std::uint64_t reg = crc64::raw(0, piece);
    ledger_.add_file(region.file, crc64::shift(reg, map_.file_bytes(region.file) - end), end - at);
    if (is_there) {
      trusted_.skip(trusted, end, reg);
    } else {
      journal_.add({region.file, at, end, reg});
    }
    if (trusted_.is_kept(region.file)) trusted_.cover(region.file, at, end);
  }
}

void TargetWriter::zero_rest(std::size_t file, std::int64_t begin, std::int64_t end) {
  static constexpr std::array<std::byte, 65536> kZeros{};
  for (const planner::WriteRegion& region : map_.regions(file, begin, end)) {
    if (region.process != process_) continue;
    for (auto [at, stop] : trusted_.gaps(file, region.begin, region.end))
      for (; at < stop; at += std::ssize(kZeros))
        files_.get(file)->write(
            at, std::span(kZeros).first(static_cast<std::size_t>(std::min(std::ssize(kZeros), stop - at))));
  }
}

std::vector<std::size_t> TargetWriter::files() const {
  std::set<std::size_t> out;
  for (const planner::WriteRegion& region : map_.regions_of(process_)) out.insert(region.file);
  return {out.begin(), out.end()};
}

}  // namespace reshard::pipeline
