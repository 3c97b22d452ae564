#pragma once
// What there is to read of a target: its files by manifest and headers, and what is wrong already.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reshard/base/checked.hpp"
#include "reshard/base/file.hpp"
#include "reshard/pipeline/formats.hpp"
#include "reshard/pipeline/manifest_layouts.hpp"
#include "reshard/pipeline/manifest_reader.hpp"
#include "reshard/pipeline/target_problem.hpp"
#include "reshard/planner/holder_sets.hpp"

namespace reshard::pipeline {

class TargetSurvey {
 public:
  using Index = planner::Index;
  using HolderSets = planner::HolderSets;

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
    const format::StoredTensor* stored = nullptr;
    std::int64_t bytes = 0;
    std::size_t first_register = 0;  ///< one for each of its HolderSets, in order
  };

  struct File {
    std::string name;
    ManifestFile expected;
    std::optional<Index> rank;  ///< the lowest that stores its tensors here; none: an index or a side file
    bool is_whole = false;      ///< there, and of the right size
    bool is_read = false;       ///< its header too
    std::vector<format::StoredTensor> tensors;
    std::vector<std::size_t> shards;  ///< that lie in one piece, by offset
  };

  /// Reads every header. `manifest` is kept. Errors: kFormat where the manifest contradicts itself, kIo; what else is
  /// wrong is a problem.
  TargetSurvey(const Manifest& manifest, const fs::path& directory, const Formats& formats, bool allow_external);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Layout>& layouts() const { return layouts_; }
  const std::vector<File>& files() const { return files_; }
  const std::vector<Shard>& shards() const { return shards_; }
  /// Shards that the format's library has to read.
  const std::vector<std::size_t>& scattered() const { return scattered_; }
  std::size_t registers() const { return registers_; }
  const std::vector<TargetProblem>& problems() const { return problems_; }
  const format::FileFormat& format() const { return format_; }
  fs::path path(const File& file) const { return directory_ / file.name; }
  format::ReadOptions read_options() const { return {allow_external_, directory_}; }

 private:
  void add(ErrorCode code, const File& file, std::optional<std::string> tensor, std::string expected,
           std::string found);
  [[noreturn]] void refuse(const std::optional<std::string>& tensor, std::string message) const;
  void lay_out();
  bool are_replicas(Index a, Index b) const;
  void list_files();
  void look_at(File& file);
  void read_headers();
  void read_header(std::size_t f, std::vector<bool>& found_in_set);
  std::optional<std::size_t> tensor_of(const std::string& stored_name, Index rank) const;
  bool agrees(const File& file, std::size_t t, const format::StoredTensor& stored);
  void add_shard(std::size_t f, std::size_t t, const format::StoredTensor& stored);
  void add_missing(const File& file, const std::vector<bool>& found, const std::vector<format::Refusal>& refusals);
  void check_index();

  const Manifest& manifest_;
  fs::path directory_;
  const format::FileFormat& format_;
  bool allow_external_ = false;
  ManifestLayouts manifest_layouts_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::vector<std::size_t>> by_stored_name_;
  std::vector<Layout> layouts_;
  std::vector<File> files_;
  std::vector<Shard> shards_;
  std::vector<std::size_t> scattered_;
  std::size_t registers_ = 0;
  std::vector<TargetProblem> problems_;
};

}  // namespace reshard::pipeline
