#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "reshard/format/hdf5/catalog.hpp"
#include "reshard/format/hdf5/child.hpp"
#include "reshard/format/hdf5/datasets.hpp"
#include "reshard/format/hdf5/hdf5.hpp"
#include "reshard/format/hdf5/library.hpp"
#include "reshard/format/hdf5/writer.hpp"
#include "reshard/format/raw_reader.hpp"

namespace reshard::format {
namespace {

/// Reads datasets without an address in this process or in a child; opened at the first need.
class LibraryReader {
 public:
  LibraryReader(fs::path child_binary, fs::path path, ReadOptions options)
      : child_binary_(std::move(child_binary)), path_(std::move(path)), options_(std::move(options)) {}

  void read(const std::string& address, std::int64_t first_byte, std::span<std::byte> out) {
    const std::lock_guard lock(mutex_);
    if (child_binary_.empty()) {
      if (!here_) here_ = std::make_unique<hdf5::Datasets>(path_, options_);
      return here_->read(address, first_byte, out);
    }
    if (!child_) child_ = std::make_unique<hdf5::Child>(child_binary_);
    child_->read(path_, options_, address, first_byte, out);
  }

 private:
  fs::path child_binary_;
  fs::path path_;
  ReadOptions options_;
  std::mutex mutex_;
  std::unique_ptr<hdf5::Datasets> here_;
  std::unique_ptr<hdf5::Child> child_;
};

/// A sparse file in memory.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("reshard", MFD_CLOEXEC)) {
    if (descriptor_ < 0) io_error("memory", "create a file in memory", errno);
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  fs::path path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

  /// Copies what is there, and no holes, to the same places.
  void copy_to(const File& out) const {
    const File in = File::open_to_read(path());
    std::vector<std::byte> buffer(std::size_t{1} << 16);
    off_t end = 0;
    for (off_t at = 0; (at = ::lseek(descriptor_, end, SEEK_DATA)) >= 0;) {
      end = ::lseek(descriptor_, at, SEEK_HOLE);
      if (end < 0) io_error(path(), "find the end of its data", errno);
      for (; at < end; at += std::ssize(buffer)) {
        const std::span<std::byte> piece =
            std::span(buffer).first(static_cast<std::size_t>(std::min<off_t>(end - at, std::ssize(buffer))));
        in.read(at, piece);
        out.write(at, piece);
      }
    }
    if (errno != ENXIO) io_error(path(), "find its data", errno);
  }

 private:
  int descriptor_;
};

class Hdf5Reader : public TensorReader {
 public:
  Hdf5Reader(const fs::path& child_binary, const fs::path& path, const ReadOptions& options)
      : file_(File::open_to_read(path)), library_(child_binary, path, options) {}

  void read(const StoredTensor& tensor, std::int64_t first_byte, std::span<std::byte> out) override {
    if (tensor.offset) return read_raw(file_, tensor, first_byte, out);
    const std::string& address = tensor.address.empty() ? tensor.name : tensor.address;
    try {
      read_ordered(tensor, first_byte, out,
                   [&](std::int64_t first, std::span<std::byte> bytes) { library_.read(address, first, bytes); });
    } catch (const Error& error) {
      Issue issue = error.issues().front();
      if (!issue.tensor) issue.tensor = tensor.name;
      throw Error(std::move(issue));
    }
  }
  void read_file(std::int64_t offset, std::span<std::byte> out) override { file_.read(offset, out); }

 private:
  File file_;
  LibraryReader library_;
};

class Hdf5 : public FileFormat {
 public:
  explicit Hdf5(fs::path child_binary) : child_binary_(std::move(child_binary)) {}

  std::string_view name() const override { return "hdf5"; }
  std::string_view extension() const override { return ".h5"; }

  /// The signature stands at 0 or, behind a user block, at 512, 1024, 2048, ...
  bool recognises(const fs::path& path) const override {
    static constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    const File file = File::open_to_read(path);
    const std::int64_t bytes = file.size();
    for (std::int64_t at = 0; at <= bytes - std::ssize(kSignature); at = at == 0 ? 512 : 2 * at) {
      std::array<unsigned char, 8> found{};
      file.read(at, std::as_writable_bytes(std::span(found)));
      if (found == kSignature) return true;
    }
    return false;
  }

  FileCatalog read_catalog(const fs::path& path, const ReadOptions& options) const override {
    if (!recognises(path))
      throw Error(Issue{ErrorCode::kFormat, path.string(), kNoTensor,
                        "has no HDF5 signature: it is no HDF5 file, or its beginning is damaged"});
    if (child_binary_.empty()) {
      const auto lock = hdf5::lock_library();
      return hdf5::walk_file(path, options);
    }
    const std::lock_guard lock(mutex_);
    if (!child_) child_ = std::make_unique<hdf5::Child>(child_binary_);
    return child_->catalog(path, options);
  }

  std::unique_ptr<TensorReader> open(const fs::path& path, const ReadOptions& options) const override {
    return std::make_unique<Hdf5Reader>(child_binary_, path, options);
  }

  void check(const NewTensor& tensor) const override { hdf5::check_tensor(tensor); }

  /// The library decides where datasets go.
  FileLayout lay_out(const NewFile& file) const override {
    return hdf5::create_file(MemoryFile().path(), "a file in memory", file, 0);
  }

  /// The library writes to memory alone: after a write that fails it may end the whole process.
  FileLayout create(const fs::path& path, const NewFile& file, std::int64_t rank) const override {
    const MemoryFile made;
    FileLayout layout = hdf5::create_file(made.path(), path.string(), file, rank);
    File out = File::create(path);
    out.resize(layout.bytes);
    made.copy_to(out);
    out.close();
    return layout;
  }

 private:
  fs::path child_binary_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<hdf5::Child> child_;  ///< reads catalogs, one file after another
};

}  // namespace

std::string hdf5_version() {
  return fmt::format("{}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
}

std::unique_ptr<FileFormat> make_hdf5(fs::path child_binary) {
  return std::make_unique<Hdf5>(std::move(child_binary));
}

}  // namespace reshard::format
