#pragma once
// What a run has seen, as sums that do not depend on order, threads or processes: the raw CRC-64 registers of tensors
// and files (base/crc64.hpp), bytes and seconds.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "reshard/exchange/communicator.hpp"

namespace reshard::pipeline {

enum class Stage { kRead, kPack, kExchange, kUnpack, kWrite, kPublish };
inline constexpr std::size_t kStages = 6;

/// Registers and counters of one process, safe from several threads.
class Ledger {
 public:
  Ledger(std::size_t tensors, std::size_t files)
      : target_registers_(tensors),
        source_registers_(tensors),
        tensor_elements_(tensors),
        file_registers_(files),
        file_bytes_(files) {}

  /// A box of elements that count for the tensor's digest.
  void add_tensor(std::size_t tensor, std::uint64_t reg, std::int64_t elements) {
    target_registers_[tensor].fetch_xor(reg, relaxed);
    tensor_elements_[tensor].fetch_add(elements, relaxed);
  }
  void add_source_tensor(std::size_t tensor, std::uint64_t reg) { source_registers_[tensor].fetch_xor(reg, relaxed); }
  void add_file(std::size_t file, std::uint64_t reg, std::int64_t bytes) {
    file_registers_[file].fetch_xor(reg, relaxed);
    file_bytes_[file].fetch_add(bytes, relaxed);
  }
  void add_time(Stage stage, std::chrono::steady_clock::duration time, std::int64_t bytes) {
    stage_nanoseconds_[static_cast<std::size_t>(stage)].fetch_add(std::chrono::nanoseconds(time).count(), relaxed);
    stage_bytes_[static_cast<std::size_t>(stage)].fetch_add(bytes, relaxed);
  }
  void count_check() { checks_.fetch_add(1, relaxed); }

  std::int64_t stage_bytes(Stage stage) const { return stage_bytes_[static_cast<std::size_t>(stage)].load(); }
  double stage_seconds(Stage stage) const {
    return static_cast<double>(stage_nanoseconds_[static_cast<std::size_t>(stage)].load()) * 1e-9;
  }
  std::int64_t checks() const { return checks_.load(); }

  /// The sums of all processes. Collective.
  struct Totals {
    std::vector<std::uint64_t> target_registers;
    std::vector<std::uint64_t> source_registers;
    std::vector<std::int64_t> tensor_elements;
    std::vector<std::uint64_t> file_registers;
    std::vector<std::int64_t> file_bytes;
    std::int64_t checks = 0;
  };
  Totals totals(exchange::Communicator& communicator) const {
    Totals out{load<std::uint64_t>(target_registers_), load<std::uint64_t>(source_registers_),
               load<std::int64_t>(tensor_elements_),   load<std::uint64_t>(file_registers_),
               load<std::int64_t>(file_bytes_),        checks_.load()};
    communicator.all_xor(out.target_registers);
    communicator.all_xor(out.source_registers);
    communicator.all_sum(out.tensor_elements);
    communicator.all_xor(out.file_registers);
    communicator.all_sum(out.file_bytes);
    communicator.all_sum({&out.checks, 1});
    return out;
  }

 private:
  static constexpr std::memory_order relaxed = std::memory_order_relaxed;

  template <typename T>
  static std::vector<T> load(const std::vector<std::atomic<T>>& from) {
    std::vector<T> out;
    out.reserve(from.size());
    for (const std::atomic<T>& value : from) out.push_back(value.load());
    return out;
  }

  std::vector<std::atomic<std::uint64_t>> target_registers_;
  std::vector<std::atomic<std::uint64_t>> source_registers_;
  std::vector<std::atomic<std::int64_t>> tensor_elements_;
  std::vector<std::atomic<std::uint64_t>> file_registers_;
  std::vector<std::atomic<std::int64_t>> file_bytes_;
  std::array<std::atomic<std::int64_t>, kStages> stage_nanoseconds_{};
  std::array<std::atomic<std::int64_t>, kStages> stage_bytes_{};
  std::atomic<std::int64_t> checks_ = 0;
};

/// Adds the time of its scope to a stage.
class StageTimer {
 public:
  StageTimer(Ledger& ledger, Stage stage, std::int64_t bytes)
      : ledger_(ledger), stage_(stage), bytes_(bytes), begin_(std::chrono::steady_clock::now()) {}
  ~StageTimer() { ledger_.add_time(stage_, std::chrono::steady_clock::now() - begin_, bytes_); }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  Ledger& ledger_;
  Stage stage_;
  std::int64_t bytes_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace reshard::pipeline
