#include "reshard/pipeline/read_back.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/crc64.hpp"
#include "reshard/exchange/box.hpp"
#include "reshard/format/safetensors/index.hpp"
#include "reshard/pipeline/handle_cache.hpp"
#include "reshard/pipeline/job.hpp"
#include "reshard/pipeline/manifest_layouts.hpp"
#include "reshard/pipeline/rank_files.hpp"
#include "reshard/planner/holder_sets.hpp"

namespace reshard::pipeline {
namespace {

using format::StoredTensor;
using planner::HolderSets;
using planner::Index;

/// Small enough to stay in a core's cache from one digest to the other.
constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;
constexpr std::size_t kNoShard = static_cast<std::size_t>(-1);

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string tensor_text(Dtype dtype, const Shape& shape) {
  return fmt::format("{} {}", name(dtype), shape_text(shape));
}

std::string bytes_text(std::int64_t bytes) {
  return fmt::format("{} bytes", bytes);
}

/// A tensor of the manifest.
struct Tensor {
  const std::string* name = nullptr;
  const ManifestTensor* entry = nullptr;
  std::size_t layout = 0;

  std::int64_t element_bytes() const { return size_bytes(entry->dtype); }
  std::int64_t bytes() const { return checked_mul(checked_product(entry->shape), element_bytes()); }
};

/// A layout with what follows from it.
struct Layout {
  const layout::TensorLayout* layout = nullptr;
  HolderSets sets;
  std::set<HolderSets::Set> all_sets;
};

/// One tensor in one file.
struct Shard {
  std::size_t tensor = 0;
  std::size_t file = 0;
  const StoredTensor* stored = nullptr;
  std::int64_t bytes = 0;
  std::size_t first_register = 0;  ///< one for each of its HolderSets, in order
};

struct TargetFile {
  std::string name;
  ManifestFile expected;
  std::optional<Index> rank;  ///< the lowest that stores its tensors here; none: an index or a side file
  bool is_whole = false;      ///< there, and of the right size
  bool is_read = false;       ///< its header too
  std::vector<StoredTensor> tensors;
  std::vector<std::size_t> shards;  ///< that lie in one piece, by offset
};

/// What there is to read, by manifest and headers, and what is wrong already.
class Survey {
 public:
  Survey(const Manifest& manifest, const fs::path& directory, const Formats& formats, const ReadBackOptions& options)
      : manifest_(manifest),
        directory_(directory),
        format_(formats.named(*manifest.side.format)),
        options_(options),
        manifest_layouts_(manifest) {
    lay_out();
    list_files();
    for (TargetFile& file : files_) look_at(file);
    read_headers();
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Layout>& layouts() const { return layouts_; }
  const std::vector<TargetFile>& files() const { return files_; }
  const std::vector<Shard>& shards() const { return shards_; }
  /// Shards that the format's library has to read.
  const std::vector<std::size_t>& scattered() const { return scattered_; }
  std::size_t registers() const { return registers_; }
  const std::vector<TargetProblem>& problems() const { return problems_; }
  const format::FileFormat& format() const { return format_; }
  fs::path path(const TargetFile& file) const { return directory_ / file.name; }
  format::ReadOptions read_options() const { return {options_.allow_external, directory_}; }

 private:
  void add(ErrorCode code, const TargetFile& file, std::string tensor, std::string expected, std::string found) {
    problems_.push_back({code, file.name, std::move(tensor), std::move(expected), std::move(found)});
  }

  [[noreturn]] void refuse(const std::string& tensor, std::string message) const {
    throw Error(Issue{ErrorCode::kFormat, manifest_.path.string(), tensor, std::move(message)});
  }

  void lay_out() {
    for (const auto& [name, entry] : manifest_.tensors) {
      try {
        by_stored_name_[entry.stored].push_back(tensors_.size());
        tensors_.push_back({&name, &entry, manifest_layouts_.number_of(entry)});
      } catch (const Error& error) {
        if (error.issues().front().code == ErrorCode::kInternal) throw;
        refuse(name, fmt::format("has the shape {}, which its placement {} cannot cut: {}", shape_text(entry.shape),
                                 entry.placement, error.issues().front().message));
      }
    }
    for (std::size_t l = 0; l < manifest_layouts_.size(); ++l) {
      const layout::TensorLayout& layout = manifest_layouts_[l].layout;
      layouts_.push_back({&layout, HolderSets(layout), {}});
      for (Index rank = 0; rank < layout.ranks; ++rank) {
        if (!layout.is_present(rank)) continue;
        const std::vector<HolderSets::Set> sets = layouts_.back().sets.sets_of(rank);
        layouts_.back().all_sets.insert(sets.begin(), sets.end());
      }
    }
  }

  bool are_replicas(Index a, Index b) const {
    return std::all_of(layouts_.begin(), layouts_.end(), [&](const Layout& entry) {
      const layout::TensorLayout& layout = *entry.layout;
      if (layout.is_present(a) != layout.is_present(b)) return false;
      return !layout.is_present(a) ||
             std::all_of(layout.dims.begin(), layout.dims.end(), [&](const layout::DimLayout& dim) {
               return dim.part_of_rank[static_cast<std::size_t>(a)] == dim.part_of_rank[static_cast<std::size_t>(b)];
             });
    });
  }

  void list_files() {
    std::map<std::string, Index> ranks;
    if (manifest_.side.files) {
      const RankFiles names(*manifest_.side.files, manifest_.side);
      for (Index rank = 0; rank < manifest_.side.mesh.size(); ++rank) {
        const auto [known, added] = ranks.try_emplace(names.of(rank), rank);
        if (!added && !are_replicas(known->second, rank))
          refuse("", fmt::format("puts ranks {} and {} into {}, but they do not store the same", known->second, rank,
                                 known->first));
        if (!manifest_.file_list.contains(known->first))
          refuse("", fmt::format("has no '{}' in 'file_list', the file of rank {}", known->first, rank));
      }
    } else {
      for (const auto& [name, entry] : manifest_.file_list)
        if (name.ends_with(format_.extension())) ranks.try_emplace(name, 0);
      if (!manifest_.file_list.contains(std::string(format::safetensors::kIndexName)))
        refuse("", fmt::format("has no '{}' in 'file_list', though it speaks of a numbered set",
                               format::safetensors::kIndexName));
    }
    for (const auto& [name, entry] : manifest_.file_list) {
      files_.push_back({name, entry, {}, false, false, {}, {}});
      if (const auto rank = ranks.find(name); rank != ranks.end()) files_.back().rank = rank->second;
    }
  }

  void look_at(TargetFile& file) {
    try {
      const std::int64_t bytes = File::open_to_read(path(file)).size();
      file.is_whole = bytes == file.expected.bytes;
      if (!file.is_whole) add(ErrorCode::kDigest, file, "", bytes_text(file.expected.bytes), bytes_text(bytes));
    } catch (const Error& error) {
      if (error.exit() != Exit::kCheckpoint) throw;
      const Issue& issue = error.issues().front();
      add(issue.code, file, "", bytes_text(file.expected.bytes),
          issue.code == ErrorCode::kMissing ? "no file" : issue.message);
    }
  }

  void read_headers() {
    std::vector<bool> found(tensors_.size(), false);
    bool all_read = true;
    for (std::size_t f = 0; f < files_.size(); ++f) {
      TargetFile& file = files_[f];
      if (!file.rank) continue;
      if (file.is_whole) read_header(f, found);
      all_read = all_read && file.is_read;
    }
    if (manifest_.side.files) return;
    // Of a numbered set it is the index that says which file a tensor is in.
    if (all_read)
      for (std::size_t t = 0; t < tensors_.size(); ++t)
        if (!found[t])
          problems_.push_back({ErrorCode::kMissing, "", *tensors_[t].name,
                               tensor_text(tensors_[t].entry->dtype, tensors_[t].entry->shape), "no tensor"});
    check_index();
  }

  void read_header(std::size_t f, std::vector<bool>& found_in_set) {
    TargetFile& file = files_[f];
    format::FileCatalog catalog;
    try {
      catalog = format_.read_catalog(path(file), read_options());
    } catch (const Error& error) {
      if (error.exit() != Exit::kCheckpoint) throw;
      for (const Issue& issue : error.issues())
        add(issue.code, file, issue.tensor, fmt::format("a file of format {}", format_.name()), issue.message);
      return;
    }
    file.is_read = true;
    file.tensors = std::move(catalog.tensors);
    std::vector<bool> found(tensors_.size(), false);
    for (const StoredTensor& stored : file.tensors) {
      const std::optional<std::size_t> tensor = tensor_of(stored.name, *file.rank);
      if (!tensor || found_in_set[*tensor]) {
        add(ErrorCode::kDifferent, file, stored.name, "no tensor", tensor_text(stored.dtype, stored.shape));
        continue;
      }
      found[*tensor] = true;
      if (!manifest_.side.files) found_in_set[*tensor] = true;
      if (agrees(file, *tensor, stored)) add_shard(f, *tensor, stored);
    }
    if (manifest_.side.files) add_missing(file, found, catalog.refusals);
    std::sort(file.shards.begin(), file.shards.end(),
              [&](std::size_t a, std::size_t b) { return *shards_[a].stored->offset < *shards_[b].stored->offset; });
    // No file of ours has two tensors in one place.
    std::int64_t end = 0;
    std::erase_if(file.shards, [&](std::size_t s) {
      const bool overlaps = *shards_[s].stored->offset < end;
      if (overlaps) scattered_.push_back(s);
      end = std::max(end, *shards_[s].stored->offset + shards_[s].bytes);
      return overlaps;
    });
  }

  std::optional<std::size_t> tensor_of(const std::string& stored_name, Index rank) const {
    const auto entries = by_stored_name_.find(stored_name);
    if (entries == by_stored_name_.end()) return std::nullopt;
    for (const std::size_t t : entries->second)
      if (layouts_[tensors_[t].layout].layout->is_present(rank)) return t;
    return std::nullopt;
  }

  bool agrees(const TargetFile& file, std::size_t t, const StoredTensor& stored) {
    const Tensor& tensor = tensors_[t];
    const Shape expected = layouts_[tensor.layout].layout->stored_shape(*file.rank);
    if (stored.dtype != tensor.entry->dtype)
      add(ErrorCode::kDtype, file, *tensor.name, std::string(name(tensor.entry->dtype)),
          std::string(name(stored.dtype)));
    if (stored.shape != expected)
      add(ErrorCode::kShape, file, *tensor.name, shape_text(expected), shape_text(stored.shape));
    if (stored.global_shape && stored.global_shape != tensor.entry->shape)
      add(ErrorCode::kShape, file, *tensor.name, "of " + shape_text(tensor.entry->shape),
          "of " + shape_text(*stored.global_shape));
    return stored.dtype == tensor.entry->dtype && stored.shape == expected;
  }

  void add_shard(std::size_t f, std::size_t t, const StoredTensor& stored) {
    TargetFile& file = files_[f];
    const std::int64_t bytes = format::payload_bytes(stored.dtype, stored.shape);
    const std::size_t shard = shards_.size();
    shards_.push_back({t, f, &stored, bytes, registers_});
    registers_ += layouts_[tensors_[t].layout].sets.sets_of(*file.rank).size();
    if (bytes == 0) return;
    const bool in_one_piece = stored.offset && !stored.big_endian && *stored.offset <= file.expected.bytes - bytes;
    (in_one_piece ? file.shards : scattered_).push_back(shard);
  }

  void add_missing(const TargetFile& file, const std::vector<bool>& found,
                   const std::vector<format::Refusal>& refusals) {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const layout::TensorLayout& layout = *layouts_[tensors_[t].layout].layout;
      if (found[t] || !layout.is_present(*file.rank)) continue;
      const auto refusal = std::find_if(refusals.begin(), refusals.end(), [&](const format::Refusal& refused) {
        return refused.name == tensors_[t].entry->stored;
      });
      add(ErrorCode::kMissing, file, *tensors_[t].name,
          tensor_text(tensors_[t].entry->dtype, layout.stored_shape(*file.rank)),
          refusal == refusals.end() ? "no tensor" : refusal->issue.message);
    }
  }

  void check_index() {
    const auto file = std::find_if(files_.begin(), files_.end(), [](const TargetFile& candidate) {
      return candidate.name == format::safetensors::kIndexName;
    });
    if (!file->is_whole) return;
    format::safetensors::Index index;
    try {
      index = format::safetensors::read_index(path(*file));
    } catch (const Error& error) {
      if (error.exit() != Exit::kCheckpoint) throw;
      add(error.issues().front().code, *file, "", "an index", error.issues().front().message);
      return;
    }
    std::int64_t bytes = 0;
    for (const Tensor& tensor : tensors_) bytes = checked_add(bytes, tensor.bytes());
    if (index.total_size != bytes)
      add(ErrorCode::kDifferent, *file, "", fmt::format("a total_size of {}", bytes),
          index.total_size ? fmt::format("{}", *index.total_size) : "none");
    for (const Shard& shard : shards_) {
      const auto mapped = index.weight_map.find(shard.stored->name);
      const std::string found = mapped == index.weight_map.end() ? "no entry" : mapped->second;
      if (found != files_[shard.file].name)
        add(ErrorCode::kDifferent, *file, shard.stored->name, files_[shard.file].name, found);
    }
    for (const auto& [tensor, mapped] : index.weight_map)
      if (!by_stored_name_.contains(tensor)) add(ErrorCode::kDifferent, *file, tensor, "no entry", mapped);
  }

  const Manifest& manifest_;
  fs::path directory_;
  const format::FileFormat& format_;
  const ReadBackOptions& options_;
  ManifestLayouts manifest_layouts_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::vector<std::size_t>> by_stored_name_;
  std::vector<Layout> layouts_;
  std::vector<TargetFile> files_;
  std::vector<Shard> shards_;
  std::vector<std::size_t> scattered_;
  std::size_t registers_ = 0;
  std::vector<TargetProblem> problems_;
};

/// All that is read, piece by piece: the files, then the shards that do not lie in one piece of theirs.
class Pieces {
 public:
  Pieces(const Survey& survey, std::int64_t piece_bytes) : piece_bytes_(piece_bytes) {
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

/// The raw registers of all files and of all sets of all shards, of this process's pieces at first.
struct Registers {
  explicit Registers(const Survey& survey) : files(survey.files().size()), sets(survey.registers()) {}

  std::vector<std::atomic<std::uint64_t>> files;
  std::vector<std::atomic<std::uint64_t>> sets;
};

class Reader {
 public:
  Reader(const Survey& survey, const ReadBackOptions& options, Registers& registers)
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
      const Shard& shard = survey_.shards()[piece.shard];
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
  void digest_tensors(const TargetFile& file, const Pieces::Piece& piece, std::span<std::byte> bytes) {
    const auto offset = [&](std::size_t s) { return *survey_.shards()[s].stored->offset; };
    auto s = std::partition_point(file.shards.begin(), file.shards.end(), [&](std::size_t candidate) {
      return offset(candidate) + survey_.shards()[candidate].bytes <= piece.begin;
    });
    for (; s != file.shards.end() && offset(*s) < piece.end; ++s) {
      const Shard& shard = survey_.shards()[*s];
      const std::int64_t begin = std::max(piece.begin, offset(*s));
      const std::int64_t end = std::min(piece.end, offset(*s) + shard.bytes);
      digest(shard, begin - offset(*s),
             bytes.subspan(static_cast<std::size_t>(begin - piece.begin), static_cast<std::size_t>(end - begin)));
    }
  }

  /// `bytes`: of the shard, from its byte `first` on.
  void digest(const Shard& shard, std::int64_t first, std::span<std::byte> bytes) {
    const Tensor& tensor = survey_.tensors()[shard.tensor];
    if (options_.hooks != nullptr) options_.hooks->on_buffer(BufferStage::kReadBack, *tensor.name, bytes);
    const Index rank = *survey_.files()[shard.file].rank;
    const std::int64_t tensor_bytes = tensor.bytes();
    survey_.layouts()[tensor.layout].sets.visit_boxes(
        rank, tensor.element_bytes(), first, std::ssize(bytes), [&](const layout::CopyBox& box, std::size_t set) {
          registers_.sets[shard.first_register + set].fetch_xor(
              exchange::box_register(box, exchange::Side::kSource, 1, bytes, tensor_bytes), std::memory_order_relaxed);
        });
  }

  const Survey& survey_;
  const ReadBackOptions& options_;
  Registers& registers_;
  HandleCache<File> files_;
  HandleCache<format::TensorReader> readers_;
};

/// Reads this process's share; returns what its buffers took.
std::int64_t read_share(const Survey& survey, const ReadBackOptions& options, exchange::Communicator& communicator,
                        Registers& registers) {
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

/// What the registers of all processes say.
class Judgement {
 public:
  Judgement(const Survey& survey, const Registers& registers, exchange::Communicator& communicator)
      : survey_(survey), sets_(summed(registers.sets, communicator)) {
    const std::vector<std::uint64_t> files = summed(registers.files, communicator);
    for (std::size_t f = 0; f < files.size(); ++f) {
      const TargetFile& file = survey.files()[f];
      const std::uint64_t digest = crc64::finish(files[f], file.expected.bytes);
      is_right_.push_back(file.is_whole && digest == file.expected.digest);
      if (file.is_whole && !is_right_.back())
        problems_.push_back(
            {ErrorCode::kDigest, file.name, "", crc64::to_hex(file.expected.digest), crc64::to_hex(digest)});
    }
    std::vector<std::vector<const Shard*>> by_tensor(survey.tensors().size());
    for (const Shard& shard : survey.shards()) by_tensor[shard.tensor].push_back(&shard);
    for (std::size_t t = 0; t < by_tensor.size(); ++t) judge(t, by_tensor[t]);
  }

  const std::vector<TargetProblem>& problems() const { return problems_; }

 private:
  /// The copy of a set that stands for it.
  struct Chosen {
    std::uint64_t value = 0;
    std::size_t file = 0;
  };

  void judge(std::size_t t, const std::vector<const Shard*>& shards) {
    const Tensor& tensor = survey_.tensors()[t];
    const Layout& layout = survey_.layouts()[tensor.layout];
    // A file whose own digest is right has the right copy, if any has.
    std::map<HolderSets::Set, Chosen> chosen;
    const auto visit_sets = [&](const Shard& shard, const auto& visit) {
      const std::vector<HolderSets::Set> sets = layout.sets.sets_of(*survey_.files()[shard.file].rank);
      for (std::size_t i = 0; i < sets.size(); ++i) visit(sets[i], sets_[shard.first_register + i]);
    };
    for (const Shard* shard : shards)
      visit_sets(*shard, [&](const HolderSets::Set& set, std::uint64_t value) {
        const auto [known, added] = chosen.try_emplace(set, Chosen{value, shard->file});
        if (!added && !is_right_[known->second.file] && is_right_[shard->file]) known->second = {value, shard->file};
      });
    for (const Shard* shard : shards) {
      const Chosen* other = nullptr;
      visit_sets(*shard, [&](const HolderSets::Set& set, std::uint64_t value) {
        if (other == nullptr && chosen.at(set).value != value) other = &chosen.at(set);
      });
      if (other != nullptr)
        problems_.push_back({ErrorCode::kDigest, survey_.files()[shard->file].name, *tensor.name,
                             "the copy in " + survey_.files()[other->file].name, "other bytes"});
    }
    if (chosen.size() < layout.all_sets.size()) return;  // some of it could not be read, as is told

    std::uint64_t sum = 0;
    std::set<std::size_t> files;
    for (const auto& [set, copy] : chosen) {
      sum ^= copy.value;
      files.insert(copy.file);
    }
    const std::uint64_t digest = crc64::finish(sum, tensor.bytes());
    if (digest == tensor.entry->digest) return;
    if (files.size() > 1) std::erase_if(files, [&](std::size_t f) { return is_right_[f]; });
    problems_.push_back({ErrorCode::kDigest, files.size() == 1 ? survey_.files()[*files.begin()].name : "",
                         *tensor.name, crc64::to_hex(tensor.entry->digest), crc64::to_hex(digest)});
  }

  const Survey& survey_;
  std::vector<std::uint64_t> sets_;
  std::vector<bool> is_right_;  // by file
  std::vector<TargetProblem> problems_;
};

/// The processes must have seen the same headers: what they sum up belongs together.
void check_same_survey(const Survey& survey, exchange::Communicator& communicator, const fs::path& directory) {
  std::string text = fmt::format("{} {}\n", survey.registers(), survey.scattered().size());
  for (const TargetProblem& problem : survey.problems())
    text += fmt::format("{} {} {} {}\n", problem.file, problem.tensor, problem.expected, problem.found);
  const bool same = exchange::same_everywhere(communicator, text);
  exchange::agreed(communicator, [&] {
    if (same) return;
    throw Error(Issue{ErrorCode::kMissing, directory.string(), "",
                      "the processes do not see the same files: is it on a file system that all nodes share?"});
  });
}

}  // namespace

ReadBack read_back(const Manifest& manifest, const fs::path& directory, const Formats& formats,
                   const ReadBackOptions& options, exchange::Communicator& communicator) {
  ReadBack out;
  std::unique_ptr<Survey> survey;
  exchange::agreed(communicator, [&] { survey = std::make_unique<Survey>(manifest, directory, formats, options); });
  check_same_survey(*survey, communicator, directory);
  Registers registers(*survey);
  exchange::agreed(communicator, [&] { out.peak_bytes = read_share(*survey, options, communicator, registers); });
  const Judgement judgement(*survey, registers, communicator);
  out.problems = survey->problems();
  out.problems.insert(out.problems.end(), judgement.problems().begin(), judgement.problems().end());
  std::stable_sort(out.problems.begin(), out.problems.end(), [](const TargetProblem& a, const TargetProblem& b) {
    return std::pair(a.file, a.tensor) < std::pair(b.file, b.tensor);
  });
  for (const TargetFile& file : survey->files())
    if (file.is_whole) out.bytes += file.expected.bytes;
  return out;
}

std::int64_t listed_bytes(const Manifest& manifest) {
  std::int64_t out = 0;
  for (const auto& [name, file] : manifest.file_list) out = checked_add(out, file.bytes);
  return out;
}

}  // namespace reshard::pipeline
