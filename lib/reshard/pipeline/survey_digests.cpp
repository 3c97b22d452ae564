#include "reshard/pipeline/survey_digests.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>

#include "reshard/base/checked.hpp"
#include "reshard/base/crc64.hpp"
#include "reshard/exchange/box.hpp"
#include "reshard/pipeline/handle_cache.hpp"
#include "reshard/pipeline/job.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;

/// Small enough to stay in a core's cache from one digest to the other.
constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;
constexpr std::size_t kNoShard = static_cast<std::size_t>(-1);

/// All that is read, piece by piece: the files, then the shards that do not lie in one piece of theirs.
class Pieces {
 public:
  Pieces(const TargetSurvey& survey, std::int64_t piece_bytes) : piece_bytes_(piece_bytes) {
    for (std::size_t f = 0; f < survey.files().size(); ++f)
      if (survey.files()[f].is_whole) add(f, kNoShard, survey.files()[f].expected.bytes);
    for (const std::size_t shard : survey.scattered())
      add(survey.shards()[shard].file, shard, survey.shards()[shard].bytes);
  }

  struct Piece {
    std::size_t file = 0;
    std::size_t shard = kNoShard;  ///< bytes of this shard; kNoShard: of the file
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  std::size_t size() const { return starts_.back(); }
  Piece operator[](std::size_t i) const {
    const auto line =
        static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), i) - starts_.begin()) - 1;
    const std::int64_t begin = static_cast<std::int64_t>(i - starts_[line]) * piece_bytes_;
    return {lines_[line].file, lines_[line].shard, begin, std::min(begin + piece_bytes_, lines_[line].end)};
  }

 private:
  void add(std::size_t file, std::size_t shard, std::int64_t bytes) {
    lines_.push_back({file, shard, 0, bytes});
    starts_.push_back(starts_.back() + static_cast<std::size_t>(ceil_div(bytes, piece_bytes_)));
  }

  std::int64_t piece_bytes_;
  std::vector<Piece> lines_;
  std::vector<std::size_t> starts_ = {0};  // number of a line's first piece, and the total
};

/// The registers of this process's pieces.
struct Registers {
  explicit Registers(const TargetSurvey& survey) : files(survey.files().size()), sets(survey.registers()) {}

  std::vector<std::atomic<std::uint64_t>> files;
  std::vector<std::atomic<std::uint64_t>> sets;
};

class Reader {
 public:
  Reader(const TargetSurvey& survey, const ReadBackOptions& options, Registers& registers)
      : survey_(survey),
        options_(options),
        registers_(registers),
        files_(kOpenFiles,
               [&survey, from_disk = options.from_disk](std::size_t f) {
                 auto file = std::make_shared<File>(File::open_to_read(survey.path(survey.files()[f])));
                 if (from_disk) file->forget_cached();
                 return file;
               }),
        readers_(kOpenFiles, [&survey](std::size_t f) {
          return std::shared_ptr<format::TensorReader>(
              survey.format().open(survey.path(survey.files()[f]), survey.read_options()));
        }) {}

  void read(const Pieces::Piece& piece, std::span<std::byte> buffer) {
    const std::span<std::byte> bytes = buffer.first(static_cast<std::size_t>(piece.end - piece.begin));
    if (piece.shard != kNoShard) {
      const TargetSurvey::Shard& shard = survey_.shards()[piece.shard];
      readers_.get(piece.file)->read(*shard.stored, piece.begin, bytes);
      digest(shard, piece.begin, bytes);
    } else {
      files_.get(piece.file)->read(piece.begin, bytes);
      // Tensors first: a test may spoil them, and the file's digest tells too.
      digest_tensors(survey_.files()[piece.file], piece, bytes);
      const std::int64_t behind = survey_.files()[piece.file].expected.bytes - piece.end;
      registers_.files[piece.file].fetch_xor(crc64::shift(crc64::raw(0, bytes), behind), std::memory_order_relaxed);
    }
    if (options_.progress_bytes != nullptr) *options_.progress_bytes += std::ssize(bytes);
  }

 private:
  void digest_tensors(const TargetSurvey::File& file, const Pieces::Piece& piece, std::span<std::byte> bytes) {
    const auto offset = [&](std::size_t s) { return *survey_.shards()[s].stored->offset; };
    auto s = std::partition_point(file.shards.begin(), file.shards.end(), [&](std::size_t candidate) {
      return offset(candidate) + survey_.shards()[candidate].bytes <= piece.begin;
    });
    for (; s != file.shards.end() && offset(*s) < piece.end; ++s) {
      const TargetSurvey::Shard& shard = survey_.shards()[*s];
      const std::int64_t begin = std::max(piece.begin, offset(*s));
      const std::int64_t end = std::min(piece.end, offset(*s) + shard.bytes);
      digest(shard, begin - offset(*s),
             bytes.subspan(static_cast<std::size_t>(begin - piece.begin), static_cast<std::size_t>(end - begin)));
    }
  }

  /// `bytes`: of the shard, from its byte `first` on.
  void digest(const TargetSurvey::Shard& shard, std::int64_t first, std::span<std::byte> bytes) {
    const TargetSurvey::Tensor& tensor = survey_.tensors()[shard.tensor];
    if (options_.hooks != nullptr) options_.hooks->on_buffer(BufferStage::kReadBack, *tensor.name, bytes);
    const Index rank = *survey_.files()[shard.file].rank;
    const std::int64_t tensor_bytes = tensor.bytes();
    survey_.layouts()[tensor.layout].sets.visit_boxes(
        rank, tensor.element_bytes(), first, std::ssize(bytes), [&](const layout::CopyBox& box, std::size_t set) {
          registers_.sets[shard.first_register + set].fetch_xor(
              exchange::box_register(box, exchange::Side::kSource, 1, bytes, tensor_bytes), std::memory_order_relaxed);
        });
  }

  const TargetSurvey& survey_;
  const ReadBackOptions& options_;
  Registers& registers_;
  HandleCache<File> files_;
  HandleCache<format::TensorReader> readers_;
};

/// Reads this process's share; returns what its buffers took.
std::int64_t read_share(const TargetSurvey& survey, const ReadBackOptions& options,
                        exchange::Communicator& communicator, Registers& registers) {
  const std::int64_t piece_bytes = std::min(kPieceBytes, options.memory_bytes);
  const Pieces pieces(survey, piece_bytes);
  const auto processes = static_cast<std::size_t>(communicator.size());
  const auto process = static_cast<std::size_t>(communicator.rank());
  const std::size_t end = pieces.size() * (process + 1) / processes;
  std::atomic<std::size_t> next = pieces.size() * process / processes;
  const auto threads = static_cast<std::size_t>(
      std::clamp<std::int64_t>(options.memory_bytes / piece_bytes, 1, std::max(1, options.threads)));
  std::vector<std::vector<std::byte>> buffers(threads, std::vector<std::byte>(static_cast<std::size_t>(piece_bytes)));
  Reader reader(survey, options, registers);
  std::atomic<bool> stop = false;
  const std::thread::id main_thread = std::this_thread::get_id();
  parallel_for(static_cast<int>(threads), threads, [&](std::size_t w) {
    try {
      for (std::size_t i = next++; i < end && !stop; i = next++) {
        check_interrupted(options.interrupted, "not everything was read");
        // MPI belongs to the thread that initialised it.
        if (std::this_thread::get_id() == main_thread && communicator.alarm_raised()) stop = true;
        reader.read(pieces[i], buffers[w]);
      }
    } catch (...) {
      stop = true;
      throw;
    }
  });
  return static_cast<std::int64_t>(threads) * piece_bytes;
}

std::vector<std::uint64_t> summed(const std::vector<std::atomic<std::uint64_t>>& mine,
                                  exchange::Communicator& communicator) {
  std::vector<std::uint64_t> out;
  out.reserve(mine.size());
  for (const std::atomic<std::uint64_t>& value : mine) out.push_back(value.load());
  communicator.all_xor(out);
  return out;
}

}  // namespace

SurveyDigests read_digests(const TargetSurvey& survey, const ReadBackOptions& options,
                           exchange::Communicator& communicator) {
  SurveyDigests out;
  Registers registers(survey);
  exchange::agreed(communicator, [&] { out.peak_bytes = read_share(survey, options, communicator, registers); });
  out.sets = summed(registers.sets, communicator);
  out.files = summed(registers.files, communicator);
  return out;
}

}  // namespace reshard::pipeline
