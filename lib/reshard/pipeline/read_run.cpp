#include "reshard/pipeline/read_run.hpp"

#include <algorithm>
#include <tuple>

namespace reshard::pipeline {

void ReadRun::begin() {
  pieces_.clear();
  taken_.clear();
  wanted_bytes_ = 0;
}

void ReadRun::add(std::size_t tensor, const planner::SourcePart& part) {
  const std::int64_t element_bytes = job_->work[tensor].source_element_bytes;
  Piece& piece = pieces_.emplace_back();
  piece.bytes = read_bytes(part, element_bytes);
  if (reads_rows(part, element_bytes) || piece.bytes > capacity_ / kFraction ||
      wanted_bytes_ + piece.bytes > capacity_ || piece.bytes == 0)
    return;
  const SourceLocation location = job_->source.locate(part.rank, job_->bound.tensors[tensor].source_stored_name());
  if (!location.tensor->offset || location.tensor->big_endian) return;
  piece.file = location.file;
  piece.begin = *location.tensor->offset + (part.first + part.column) * element_bytes;
  wanted_bytes_ += piece.bytes;
  taken_.push_back(pieces_.size() - 1);
}

void ReadRun::read() {
  if (taken_.empty()) return;
  if (memory_ == nullptr) memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(capacity_));
  std::sort(taken_.begin(), taken_.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(pieces_[a].file, pieces_[a].begin, a) < std::tie(pieces_[b].file, pieces_[b].begin, b);
  });
  std::int64_t place = 0;
  for (auto first = taken_.begin(); first != taken_.end();) {
    const Piece& head = pieces_[*first];
    std::int64_t bytes = 0;
    auto last = first;
    for (; last != taken_.end(); ++last) {
      Piece& piece = pieces_[*last];
      if (piece.file != head.file || piece.begin != head.begin + bytes) break;
      piece.place = place + bytes;
      bytes += piece.bytes;
    }
    const StageTimer timer(job_->ledger, Stage::kRead, bytes);
    job_->readers.read_file(head.file, head.begin, {memory_.get() + place, static_cast<std::size_t>(bytes)});
    place += bytes;
    first = last;
  }
}

std::optional<std::span<std::byte>> ReadRun::at(std::size_t i) {
  if (i >= pieces_.size() || !pieces_[i].place) return std::nullopt;
  return std::span(memory_.get() + *pieces_[i].place, static_cast<std::size_t>(pieces_[i].bytes));
}

}  // namespace reshard::pipeline
