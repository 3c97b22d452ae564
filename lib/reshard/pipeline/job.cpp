#include "reshard/pipeline/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#include "reshard/exchange/box.hpp"
#include "reshard/exchange/convert.hpp"

namespace reshard::pipeline {
namespace {

/// Rows of at least this much are read one by one where columns between them are not wanted; shorter ones together.
constexpr std::int64_t kRowReadBytes = std::int64_t{32} << 10;

}  // namespace

void check_interrupted(const volatile std::sig_atomic_t* interrupted, std::string_view kept) {
  if (interrupted == nullptr || *interrupted == 0) return;
  const int signal = *interrupted;
  throw Error(static_cast<Exit>(128 + signal),
              {Issue{ErrorCode::kInterrupted, "", kNoTensor, fmt::format("ended by signal {}; {}", signal, kept)}});
}

void check_interrupted(const Job& job) {
  check_interrupted(job.interrupted, kKeptText);
}

bool reads_rows(const planner::SourcePart& part, std::int64_t element_bytes) {
  return part.rows > 1 && part.columns < part.row_elements && part.columns * element_bytes >= kRowReadBytes;
}

std::int64_t read_bytes(const planner::SourcePart& part, std::int64_t element_bytes) {
  const planner::Index elements = reads_rows(part, element_bytes) ? part.rows * part.columns : part.span_elements();
  return elements * element_bytes;
}

std::int64_t reads(const planner::SourcePart& part, std::int64_t element_bytes) {
  return reads_rows(part, element_bytes) ? part.rows : 1;
}

void read_part(SourceReaders& readers, const SourceLocation& location, const planner::SourcePart& part,
               std::int64_t element_bytes, std::span<std::byte> out) {
  if (!reads_rows(part, element_bytes)) {
    readers.read(location, (part.first + part.column) * element_bytes, out);
    return;
  }
  const auto row_bytes = static_cast<std::size_t>(part.columns * element_bytes);
  for (planner::Index row = 0; row < part.rows; ++row)
    readers.read(location, (part.first + row * part.row_elements + part.column) * element_bytes,
                 out.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes));
}

void read_part(const Job& job, std::size_t tensor, const planner::SourcePart& part, std::span<std::byte> out) {
  const SourceLocation location = job.source.locate(part.rank, job.bound.tensors[tensor].source_stored_name());
  const StageTimer timer(job.ledger, Stage::kRead, static_cast<std::int64_t>(out.size()));
  read_part(job.readers, location, part, job.work[tensor].source_element_bytes, out);
}

std::vector<layout::CopyBox> buffer_copies(const planner::Tile& tile, std::int64_t source_element_bytes) {
  std::vector<layout::CopyBox> out;
  out.reserve(tile.copies.size());
  for (layout::CopyBox box : tile.copies) {
    const planner::SourcePart& part = tile.sources[box.source];
    box.source_offset -= part.column;
    if (reads_rows(part, source_element_bytes)) box.dims[0].source_stride = part.columns;
    out.push_back(layout::flattened(std::move(box)));
  }
  return out;
}

void fill_padding(const planner::Tile& tile, std::size_t target, const planner::WorkTensor& work,
                  std::span<std::byte> buffer) {
  for (const planner::PadBox& pad : tile.pads)
    if (pad.box.target == target && !work.pad_value(pad.dim).empty())
      exchange::move_box(pad.box, work.target_element_bytes, work.pad_value(pad.dim), buffer);
}

void check_target(const Job& job, std::size_t tensor, const planner::TargetPart& part, std::uint64_t read_register,
                  std::uint64_t write_register) {
  job.ledger.count_check();
  if (read_register == write_register) return;
  throw Error(Issue{
      ErrorCode::kDigest, "", job.bound.tensors[tensor].target_name,
      fmt::format("the bytes to be written for target rank {} (stored elements {} to {}) are not those that were read: "
                  "memory was corrupted or the program is wrong; nothing is published",
                  part.ranks.front(), part.first, part.first + part.elements)});
}

void write_target(const Job& job, std::size_t tensor, const planner::TargetPart& part,
                  std::span<const std::byte> bytes) {
  const StageTimer timer(job.ledger, Stage::kWrite, static_cast<std::int64_t>(bytes.size()));
  job.writer.write(part, tensor, job.work[tensor].target_element_bytes, bytes);
  if (job.progress_bytes != nullptr) *job.progress_bytes += static_cast<std::int64_t>(bytes.size());
}

void check_before_conversion(const Job& job, std::size_t tensor, std::uint64_t as_read, std::uint64_t as_found) {
  job.ledger.count_check();
  if (as_found == as_read) return;
  throw Error(Issue{ErrorCode::kDigest, "", job.bound.tensors[tensor].target_name,
                    "the bytes to be converted are not those that were read: memory was corrupted or the program is "
                    "wrong; nothing is published"});
}

std::uint64_t convert_packed(const Job& job, const layout::CopyBox& box, std::size_t tensor, std::uint64_t as_read,
                             std::span<const std::byte> packed, std::span<std::byte> converted) {
  const planner::WorkTensor& work = job.work[tensor];
  const planner::BoundTensor& bound = job.bound.tensors[tensor];
  check_before_conversion(
      job, tensor, as_read,
      exchange::packed_register(box, work.source_element_bytes, packed, work.tiling->tensor_elements()));
  exchange::convert(bound.source_dtype, packed, bound.target_dtype, converted);
  return exchange::packed_register(box, work.target_element_bytes, converted, work.tiling->tensor_elements());
}

void parallel_for(int threads, std::size_t count, const std::function<void(std::size_t)>& work) {
  if (threads <= 1 || count <= 1) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto loop = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t i = 1; i < std::min(static_cast<std::size_t>(threads), count); ++i) others.emplace_back(loop);
    } catch (const std::system_error&) {
      // The system has no more threads: those that are there do the work.
    }
    loop();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace reshard::pipeline
