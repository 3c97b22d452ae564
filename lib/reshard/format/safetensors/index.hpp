#pragma once
// The index of a Hugging Face set: `model.safetensors.index.json` beside `model-00001-of-000NN.safetensors`.
//
//   {"metadata": {"total_parameters": 20, "total_size": 65}, "weight_map": {"NAME":
//   "model-00001-of-00002.safetensors"}}
//
// `total_size` is the sum of tensor bytes, headers not counted. Files are named by bare names in the directory of the
// index; links are followed (the hub's cache is made of them).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/format/format.hpp"

namespace reshard::format::safetensors {

constexpr std::string_view kIndexName = "model.safetensors.index.json";

struct Index {
  std::map<std::string, std::string> weight_map;  ///< tensor -> file, a bare name
  std::optional<std::int64_t> total_size;         ///< as found: a source's may be wrong and is never planned with
  std::optional<std::int64_t> total_parameters;

  /// The files of the set in byte order of their names, each with its tensors.
  std::map<std::string, std::vector<std::string>> files() const;
};

/// Errors: kFormat (not JSON, repeated keys, file names that are no bare names), kMissing, kIo.
Index read_index(const fs::path& path);

/// Every file of the set is there and regular. All faults at once: kMissing and kFormat, each naming the file and its
/// first tensors.
void check_files(const fs::path& directory, const Index& index);

/// Index and files tell the same tensors, once each; `catalogs` maps file name to catalog. Errors: kFormat, all at
/// once. Warnings: W_INDEX for a wrong total_size.
std::vector<Warning> check_tensors(const fs::path& path, const Index& index,
                                   const std::map<std::string, FileCatalog>& catalogs);

/// Those of `names` that by their numbers belong to the index's set (`model-00002-of-00003.safetensors` beside files
/// `-of-00003` of it) though it maps no tensor to them.
std::vector<std::string> unlisted_parts(const Index& index, const std::vector<std::string>& names);

/// The tensors of an unlisted part are none that the index maps to another file: kFormat, all at once.
void check_unlisted_part(const fs::path& part, const Index& index, const FileCatalog& catalog);

/// The text of an index with keys in byte order; the same index gives the same text.
std::string to_json(const Index& index);

}  // namespace reshard::format::safetensors
