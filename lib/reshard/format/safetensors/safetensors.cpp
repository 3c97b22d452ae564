#include "reshard/format/safetensors/safetensors.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "reshard/base/utf8.hpp"
#include "reshard/format/raw_reader.hpp"
#include "reshard/format/safetensors/dtypes.hpp"
#include "reshard/format/safetensors/header.hpp"

namespace reshard::format {
namespace {

class SafetensorsReader : public TensorReader {
 public:
  explicit SafetensorsReader(File file) : file_(std::move(file)) {}

  void read(const StoredTensor& tensor, std::int64_t first_byte, std::span<std::byte> out) override {
    read_raw(file_, tensor, first_byte, out);
  }
  void read_file(std::int64_t offset, std::span<std::byte> out) override { file_.read(offset, out); }

 private:
  File file_;
};

class Safetensors : public FileFormat {
 public:
  std::string_view name() const override { return "safetensors"; }
  std::string_view extension() const override { return ".safetensors"; }

  bool recognises(const fs::path& path) const override {
    const File file = File::open_to_read(path);
    std::array<std::byte, 9> begin{};
    if (file.size() < std::ssize(begin)) return false;
    file.read(0, begin);
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(begin[i]);
    return length <= static_cast<std::uint64_t>(safetensors::kMaxHeaderBytes) && begin[8] == std::byte{'{'};
  }

  FileCatalog read_catalog(const fs::path& path, const ReadOptions&) const override {
    return safetensors::read_header(File::open_to_read(path));
  }

  std::unique_ptr<TensorReader> open(const fs::path& path, const ReadOptions&) const override {
    return std::make_unique<SafetensorsReader>(File::open_to_read(path));
  }

  void check(const NewTensor& tensor) const override {
    if (!safetensors::header_name(tensor.dtype))
      throw Error(Issue{ErrorCode::kDtype, "", tensor.name,
                        fmt::format("safetensors has no dtype {}", reshard::name(tensor.dtype))});
    if (tensor.name == "__metadata__")
      throw Error(Issue{ErrorCode::kUnsupported, "", tensor.name, "safetensors keeps this name for the metadata"});
    if (!is_utf8(tensor.name))
      throw Error(Issue{ErrorCode::kUnsupported, "", tensor.name,
                        "names are stored as UTF-8, which this is not; `rename` gives it another"});
  }

  FileLayout lay_out(const NewFile& file) const override { return header_of(file, "").layout; }

  FileLayout create(const fs::path& path, const NewFile& file, std::int64_t) const override {
    safetensors::WrittenHeader header = header_of(file, path.string());
    File out = File::create(path);
    out.resize(header.layout.bytes);
    out.write(0, std::as_bytes(std::span(header.bytes)));
    out.close();
    return std::move(header.layout);
  }

 private:
  safetensors::WrittenHeader header_of(const NewFile& file, const std::string& path) const {
    for (const NewTensor& tensor : file.tensors) check(tensor);
    return safetensors::write_header(file, path);
  }
};

}  // namespace

std::unique_ptr<FileFormat> make_safetensors() {
  return std::make_unique<Safetensors>();
}

}  // namespace reshard::format
