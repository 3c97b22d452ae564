#pragma once
// What the workers of a run share, made by hand: a job over files of noise.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshard/format/safetensors/safetensors.hpp"
#include "reshard/pipeline/job.hpp"
#include "reshard/pipeline/prepare.hpp"
#include "unit/pipeline/checkpoint_fixtures.hpp"

namespace reshard::test {

/// Safetensors that counts the reads of whole stretches of a file. Tensors named "big..." are taken for big-endian
/// ones, those named "chunked..." for such as only a library can read.
class CountedFormat : public format::FileFormat {
 public:
  struct Read {
    std::string file;
    std::int64_t offset = 0;
    std::size_t bytes = 0;

    friend bool operator==(const Read&, const Read&) = default;
  };

  std::string_view name() const override { return inner_->name(); }
  std::string_view extension() const override { return inner_->extension(); }
  bool recognises(const fs::path& path) const override { return inner_->recognises(path); }
  format::FileCatalog read_catalog(const fs::path& path, const format::ReadOptions& options) const override {
    format::FileCatalog out = inner_->read_catalog(path, options);
    for (format::StoredTensor& tensor : out.tensors) {
      tensor.big_endian = tensor.name.starts_with("big");
      if (tensor.name.starts_with("chunked")) tensor.offset.reset();
    }
    return out;
  }
  std::unique_ptr<format::TensorReader> open(const fs::path& path, const format::ReadOptions& options) const override {
    return std::make_unique<Reader>(*this, path, inner_->open(path, options));
  }
  void check(const format::NewTensor& tensor) const override { inner_->check(tensor); }
  format::FileLayout lay_out(const format::NewFile& file) const override { return inner_->lay_out(file); }
  format::FileLayout create(const fs::path& path, const format::NewFile& file, std::int64_t rank) const override {
    return inner_->create(path, file, rank);
  }

  mutable std::vector<Read> reads;

 private:
  class Reader : public format::TensorReader {
   public:
    Reader(const CountedFormat& format, const fs::path& path, std::unique_ptr<format::TensorReader> inner)
        : format_(format), file_(path.filename().string()), inner_(std::move(inner)) {}
    void read(const format::StoredTensor& tensor, std::int64_t first_byte, std::span<std::byte> out) override {
      inner_->read(tensor, first_byte, out);
    }
    void read_file(std::int64_t offset, std::span<std::byte> out) override {
      format_.reads.push_back({file_, offset, out.size()});
      inner_->read_file(offset, out);
    }

   private:
    const CountedFormat& format_;
    std::string file_;
    std::unique_ptr<format::TensorReader> inner_;
  };

  std::unique_ptr<format::FileFormat> inner_ = format::make_safetensors();
};

/// Two rank files of the same tensors, filled with noise, and a job that copies them.
class CopyJob {
 public:
  explicit CopyJob(std::vector<format::NewTensor> tensors) : formats_(formats_of(counted_)) {
    fs::create_directory(root_ / "source");
    std::mt19937_64 random(3);
    for (const char* name : {"rank-00000.safetensors", "rank-00001.safetensors"}) {
      const fs::path path = root_ / "source" / name;
      write_checkpoint(path, tensors);
      const format::FileCatalog catalog = format::make_safetensors()->read_catalog(path, {});
      const File file = File::open_to_write(path);
      for (const format::StoredTensor& tensor : catalog.tensors) {
        std::vector<std::byte> noise(static_cast<std::size_t>(format::payload_bytes(tensor.dtype, tensor.shape)));
        for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
        if (!noise.empty()) file.write(*tensor.offset, noise);
      }
    }
    pipeline::PrepareOptions options;
    options.source = root_ / "source";
    prepared_ = pipeline::prepare({plan::read_plan("{reshard: 1, source: {axes: [tp=2]}, target: {axes: [tp=2]}, "
                                                   "tensors: [{match: '*', shard: {0: tp}}]}",
                                                   plan::Notation::kYaml, "plan.yaml")},
                                  options, formats_);
    ledger_ = std::make_unique<pipeline::Ledger>(prepared_->work.size(), prepared_->target.files.size());
    pipeline::JournaledFiles journaled{"0000000000000000", {}, {}};
    for (std::size_t f = 0; f < prepared_->target.files.size(); ++f) {
      journaled.names.push_back(prepared_->target.files[f].name);
      journaled.bytes.push_back(prepared_->map->file_bytes(f));
      File::create(root_ / journaled.names[f]).resize(journaled.bytes[f]);
    }
    journal_ = std::make_unique<pipeline::Journal>(root_.path(), journaled, 0);
    writer_ = std::make_unique<pipeline::TargetWriter>(root_.path(), journaled.names, *prepared_->map, 0, *ledger_,
                                                       *journal_, trusted_);
    readers_ = std::make_unique<pipeline::SourceReaders>(prepared_->source, false);
    job_.reset(new pipeline::Job{prepared_->bound, prepared_->work, prepared_->source, *readers_, *prepared_->map,
                                 *writer_, *ledger_, *communicator_});
    job_->progress_bytes = &progress_bytes;
  }

  const pipeline::Job& job() const { return *job_; }
  std::size_t number_of(std::string_view tensor) const {
    std::size_t out = 0;
    while (prepared_->bound.tensors[out].target_name != tensor) ++out;
    return out;
  }
  /// Where a rank's tensor begins in its source file.
  std::int64_t offset_of(planner::Index rank, const std::string& tensor) const {
    return prepared_->source.locate(rank, tensor).tensor->offset.value();
  }
  /// What a worker that reads a piece by itself gets.
  std::vector<std::byte> content(std::size_t tensor, const planner::SourcePart& part) const {
    std::vector<std::byte> out(
        static_cast<std::size_t>(pipeline::read_bytes(part, prepared_->work[tensor].source_element_bytes)));
    pipeline::read_part(*job_, tensor, part, out);
    return out;
  }
  std::vector<std::byte> target(std::size_t file, std::int64_t begin, std::int64_t end) const {
    std::vector<std::byte> out(static_cast<std::size_t>(end - begin));
    File::open_to_read(root_ / prepared_->target.files[file].name).read(begin, out);
    return out;
  }
  /// Reads of stretches so far, forgotten.
  std::vector<CountedFormat::Read> take_reads() { return std::exchange(counted_->reads, {}); }

  std::atomic<std::int64_t> progress_bytes = 0;

 private:
  static pipeline::Formats formats_of(CountedFormat*& counted) {
    auto format = std::make_unique<CountedFormat>();
    counted = format.get();
    std::vector<std::unique_ptr<format::FileFormat>> list;
    list.push_back(std::move(format));
    return pipeline::Formats(std::move(list));
  }

  TemporaryDirectory root_;
  CountedFormat* counted_ = nullptr;
  pipeline::Formats formats_;
  std::unique_ptr<pipeline::Prepared> prepared_;
  std::unique_ptr<pipeline::Ledger> ledger_;
  std::unique_ptr<pipeline::Journal> journal_;
  pipeline::Trusted trusted_;
  std::unique_ptr<pipeline::TargetWriter> writer_;
  std::unique_ptr<pipeline::SourceReaders> readers_;
  std::unique_ptr<exchange::Communicator> communicator_ = exchange::alone();
  std::unique_ptr<pipeline::Job> job_;
};

}  // namespace reshard::test
