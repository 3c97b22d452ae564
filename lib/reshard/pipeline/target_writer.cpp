#include "reshard/pipeline/target_writer.hpp"

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
                           ProcessRank process, Ledger& ledger)
    : map_(map),
      process_(process),
      ledger_(ledger),
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
      files_.get(file)->write(region.begin, piece);
      ledger_.add_file(file, crc64::shift(crc64::raw(0, piece), map_.file_bytes(file) - region.end),
                       region.end - region.begin);
    }
  }
}

void TargetWriter::sync() {
  std::set<std::size_t> written;
  for (const planner::WriteRegion& region : map_.regions_of(process_)) written.insert(region.file);
  for (const std::size_t file : written) files_.get(file)->sync();
}

}  // namespace reshard::pipeline
