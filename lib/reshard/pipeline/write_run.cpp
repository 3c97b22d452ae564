#include "reshard/pipeline/write_run.hpp"

namespace reshard::pipeline {

std::span<std::byte> WriteRun::take(const planner::WriteRegion& region) {
  if (memory_ == nullptr) memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(capacity_));
  const bool joins = region.file == taken_.file && region.begin == taken_.end && region.end - taken_.begin <= capacity_;
  if (!joins) {
    write();
    taken_ = region;
  }
  taken_.end = region.end;
  return {memory_.get() + (region.begin - taken_.begin), static_cast<std::size_t>(region.end - region.begin)};
}

void WriteRun::write() {
  const std::int64_t bytes = taken_.end - taken_.begin;
  if (bytes == 0) return;
  const StageTimer timer(job_->ledger, Stage::kWrite, bytes);
  job_->writer.write_region(taken_, {memory_.get(), static_cast<std::size_t>(bytes)});
  if (job_->progress_bytes != nullptr) *job_->progress_bytes += bytes;
  taken_.begin = taken_.end;
}

}  // namespace reshard::pipeline
