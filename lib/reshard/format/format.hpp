#pragma once
// A checkpoint format, seen file by file: what tensors a file holds and where their bytes lie; how a new file is laid
// out. A format knows nothing of ranks or meshes. Each has its folder with its specification, reader and writer;
// `pipeline` asks for them through this interface and apps/ chooses which exist.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/checked.hpp"
#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"
#include "reshard/base/file.hpp"

namespace reshard::format {

/// One tensor in one file.
struct StoredTensor {
  std::string name;
  Dtype dtype = Dtype::kU8;
  Shape shape;
  /// Where the bytes begin, for bytes that lie in one piece in row-major order. Nothing: only the format's library can
  /// read them (chunked, compressed, compact). A zero-size tensor has none and needs none.
  std::optional<std::int64_t> offset;
  bool big_endian = false;
  /// Where the format's library finds it; empty where that is the name.
  std::string address;
  /// True shape as the file records it (files of ours).
  std::optional<Shape> global_shape;
};

/// Bytes of `shape` elements. Errors: kOverflow beyond 63 bits.
inline std::int64_t payload_bytes(Dtype dtype, const Shape& shape) {
  return checked_mul(checked_product(shape), size_bytes(dtype));
}

/// Something in the file that a tensor's name finds but that is no tensor: an error only where a rule would move it.
struct Refusal {
  std::string name;
  Issue issue;
};

struct FileCatalog {
  std::int64_t bytes = 0;             ///< of the file
  std::vector<StoredTensor> tensors;  ///< in bytewise name order
  std::vector<Refusal> refusals;
  std::map<std::string, std::string> metadata;
  /// Mesh and rank as files of ours record them ("tp=2"), for a notice where a plan says otherwise.
  std::optional<std::vector<std::string>> axes;
  std::optional<std::int64_t> rank;
  std::vector<Warning> warnings;
};

/// A tensor to be written: `shape` is what the file stores, `global_shape` the true shape of the whole.
struct NewTensor {
  std::string name;
  Dtype dtype = Dtype::kU8;
  Shape shape;
  Shape global_shape;
};

struct NewFile {
  std::vector<NewTensor> tensors;  ///< any order
  std::map<std::string, std::string> metadata;
  std::vector<std::string> axes;  ///< "tp=2"
};

/// Where the bytes of a new file go.
struct FileLayout {
  std::int64_t bytes = 0;             ///< of the whole file
  std::vector<std::int64_t> offsets;  ///< as in NewFile::tensors; 0 for a zero-size tensor
};

/// Reads tensor bytes of one open file, as little-endian row-major elements. Safe from several threads.
class TensorReader {
 public:
  virtual ~TensorReader() = default;
  /// Fills `out` with the tensor's bytes from logical byte `first_byte` on. Errors: kIo, kFormat (data that were never
  /// written).
  virtual void read(const StoredTensor& tensor, std::int64_t first_byte, std::span<std::byte> out) = 0;
  /// Fills `out` with the file's bytes from `offset` on: tensors that have an offset, several at once where they lie
  /// side by side. Errors: kIo.
  virtual void read_file(std::int64_t offset, std::span<std::byte> out) = 0;
};

struct ReadOptions {
  bool allow_external = false;  ///< follow HDF5 external links and storage inside `root`
  fs::path root;                ///< the checkpoint directory
};

class FileFormat {
 public:
  virtual ~FileFormat() = default;
  virtual std::string_view name() const = 0;       ///< "safetensors"
  virtual std::string_view extension() const = 0;  ///< ".safetensors"
  /// Whether the file begins as this format does (its name does not matter).
  virtual bool recognises(const fs::path& path) const = 0;
  /// Reads headers only. Errors: kFormat, kUnsupported, kLink, kIo, kMissing, naming file and tensor. Memory stays
  /// within a small multiple of the header's size.
  virtual FileCatalog read_catalog(const fs::path& path, const ReadOptions& options) const = 0;
  virtual std::unique_ptr<TensorReader> open(const fs::path& path, const ReadOptions& options) const = 0;
  /// Whether the format can store this dtype and name. Errors of create() that a plan can foresee.
  virtual void check(const NewTensor& tensor) const = 0;
  /// How create() will lay the file out, without touching any. Cost: that of creating it.
  virtual FileLayout lay_out(const NewFile& file) const = 0;
  /// Creates the file at its full size with everything but the tensor bytes. The same input gives the same bytes at any
  /// time. Tensor bytes are then written at the offsets by whoever has them. `rank`: whose file it is; it changes no
  /// offset.
  virtual FileLayout create(const fs::path& path, const NewFile& file, std::int64_t rank) const = 0;
};

}  // namespace reshard::format
